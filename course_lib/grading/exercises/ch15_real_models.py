"""The exercises of chapter 15: a checkpoint's names, vectors of texts, search, and five patients.

The names are in `checkpoint_names`, vectors and search in `sentence_vectors`, the patients in
`clinic_attention` and `clinic_texts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.grading.exercises import clinic_attention, clinic_texts
from course_lib.grading.exercises.checkpoint_names import NAMES
from course_lib.grading.exercises.clinic_attention import HALF, MARKS, PADDING
from course_lib.grading.exercises.clinic_texts import SIDES, TOKENS
from course_lib.grading.exercises.sentence_vectors import POOLING, SEARCH

__all__ = ["BROKEN", "EXERCISES"]

#: The programs that the debugging exercises begin with.
BROKEN: dict[str, Callable[..., Any]] = {**clinic_attention.BROKEN, **clinic_texts.BROKEN}

EXERCISES = [NAMES, POOLING, SEARCH, MARKS, PADDING, SIDES, HALF, TOKENS]
