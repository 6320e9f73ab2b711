"""How colours are seen: contrast, the site's dark filter, three kinds of colour blindness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", 2009, table 1 at severity 1.0; applied to linear RGB.
VISION = {
    "full": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def rgb(code: str) -> NDArray:
    """Return #RRGGBB as three numbers from 0 to 1."""
    return np.array([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def linear(colour: NDArray) -> NDArray:
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def contrast(a: NDArray, b: NDArray) -> float:
    """Return WCAG's contrast ratio, from 1 to 21."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


def inverted(colour: NDArray) -> NDArray:
    """Return what ``filter: invert(.93) hue-rotate(180deg)`` makes of a colour (CSS filters 1)."""
    turn = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
    return np.clip(turn @ np.clip(0.93 - 0.86 * colour, 0, 1), 0, 1)


def distance(a: NDArray, b: NDArray, vision: str) -> float:
    """Return the distance in CIE L*a*b* between two colours as somebody sees them."""

    def lab(colour: NDArray) -> NDArray:
        seen = np.clip(VISION[vision] @ linear(colour), 0, 1)
        to_xyz = np.array(
            [
                [0.4124564, 0.3575761, 0.1804375],
                [0.2126729, 0.7151522, 0.0721750],
                [0.0193339, 0.1191920, 0.9503041],
            ]
        )
        t = to_xyz @ seen / to_xyz.sum(axis=1)
        f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    return float(np.linalg.norm(lab(a) - lab(b)))
