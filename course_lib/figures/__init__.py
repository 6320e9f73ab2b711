"""Every plot and diagram of the course: a function that returns a `Plot` or an `Svg`.

One module for each chapter's figures. This package imports none of them, so that a change of one
chapter's figures leaves the other chapters' outputs as they are.
"""

from course_lib.figures.style import COLOURS, MUTED, Plot, Svg, course_style

__all__ = ["COLOURS", "MUTED", "Plot", "Svg", "course_style"]
