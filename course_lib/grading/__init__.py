"""The grader: exercises as data, checks of a student's function, feedback in plain words."""

from course_lib.grading.checks import check, hint, status
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.grading.report import Message, Report

__all__ = [
    "Alternative",
    "Case",
    "Exercise",
    "Message",
    "Misconception",
    "Report",
    "check",
    "hint",
    "status",
]
