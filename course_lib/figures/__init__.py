"""Every plot and diagram of the course: a function that returns a `Plot` or an `Svg`."""

from course_lib.figures.attention import (
    qkv_diagram,
    scaling_comparison,
    score_variance,
    softmax_shift_and_scale,
    weights_heatmap,
)
from course_lib.figures.style import COLOURS, MUTED, Plot, Svg, course_style

__all__ = [
    "COLOURS",
    "MUTED",
    "Plot",
    "Svg",
    "course_style",
    "qkv_diagram",
    "scaling_comparison",
    "score_variance",
    "softmax_shift_and_scale",
    "weights_heatmap",
]
