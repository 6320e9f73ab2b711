"""The grader: exercises as data, checks of a student's function, feedback in plain words."""

from course_lib.grading.model import Alternative, Case, Exercise, Misconception

__all__ = ["Alternative", "Case", "Exercise", "Misconception"]
