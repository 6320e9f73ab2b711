"""Half precision: computed in single precision, for arrays and tensors alike."""

from __future__ import annotations

from typing import Any

from course_lib.validation import dtype_name


def widen(x: Any) -> Any:
    """Return half-precision numbers in single precision, all others as they are.

    float16 ends at 65,504, which a dot product of everyday size passes, and bfloat16 keeps 8 bits.
    Sums and exponentials are therefore taken in float32 and rounded once, at the end.

    Parameters
    ----------
    x : array or tensor of any shape

    Returns
    -------
    array or tensor of the same shape
        float32 where `x` is float16 or bfloat16; otherwise `x` itself.

    References
    ----------
    Micikevicius et al., "Mixed Precision Training", 2018 (arXiv:1710.03740), section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> widen(np.ones(2, dtype=np.float16)).dtype
    dtype('float32')
    """
    if dtype_name(x) not in ("float16", "bfloat16"):
        return x
    return x.float() if hasattr(x, "float") else x.astype("float32")
