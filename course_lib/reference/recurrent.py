"""Recurrent layers, one step and a whole sequence: a plain one, GRU and LSTM, in numpy.

Weights lie as ``torch.nn.RNN``, ``GRU`` and ``LSTM`` keep them: the g matrices of a layer's gates
under one another, ``w_x`` (g d_h, d_in) for the token and ``w_h`` (g d_h, d_h) for the state, each
with a bias. Half-precision input is computed in single precision and returned in half, rounded
once a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import check_cell, check_float, check_recurrence, check_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "gru",
    "gru_step",
    "lstm",
    "lstm_step",
    "rnn",
    "rnn_step",
    "sigmoid",
]


def sigmoid(x: NDArray) -> NDArray:
    """Squash numbers into (0, 1): how far a gate is open.

    ``σ(x) = 1 / (1 + exp(−x))``, written by tanh, in which no exponential overflows:
    ``σ(x) = (1 + tanh(x / 2)) / 2``.

    Parameters
    ----------
    x : float array of any shape

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point.

    Examples
    --------
    >>> sigmoid(np.array([-1000.0, 0.0, 1.0])).round(4)
    array([0.    , 0.5   , 0.7311])
    """
    check_float("x", x)
    return ((1 + np.tanh(widen(x) / 2)) / 2).astype(x.dtype)


def rnn_step(
    x: NDArray,  # (..., d_in)
    h: NDArray,  # (..., d_h)
    w_x: NDArray,  # (d_h, d_in)
    w_h: NDArray,  # (d_h, d_h)
    b_x: NDArray,  # (d_h,)
    b_h: NDArray,  # (d_h,)
) -> NDArray:
    """Take a plain recurrent layer one token further.

    ``h' = tanh(W_x x + b_x + W_h h + b_h)`` (Elman 1990, with tanh).

    Parameters
    ----------
    x : float array, (..., d_in)
        The token.
    h : float array, (..., d_h)
        The state before it.
    w_x, w_h : float arrays, (d_h, d_in) and (d_h, d_h)
    b_x, b_h : float arrays, (d_h,)

    Returns
    -------
    float array, (..., d_h)
        The state after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    References
    ----------
    Elman, "Finding Structure in Time", 1990.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> rnn_step(one[0], one[0], one, one, one[0], one[0]).round(4)
    array([0.9993])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=1)
    dtype = h.dtype
    x, h, w_x, w_h, b_x, b_h = map(widen, (x, h, w_x, w_h, b_x, b_h))
    return np.tanh(x @ w_x.T + b_x + h @ w_h.T + b_h).astype(dtype)


def gru_step(
    x: NDArray,  # (..., d_in)
    h: NDArray,  # (..., d_h)
    w_x: NDArray,  # (3 d_h, d_in)
    w_h: NDArray,  # (3 d_h, d_h)
    b_x: NDArray,  # (3 d_h,)
    b_h: NDArray,  # (3 d_h,)
) -> NDArray:
    """Take a gated recurrent unit one token further.

    The reset gate r says how much of the state the candidate n gets to see, the update gate z how
    much of the state is kept::

        r  = σ(W_xr x + b_xr + W_hr h + b_hr)
        z  = σ(W_xz x + b_xz + W_hz h + b_hz)
        n  = tanh(W_xn x + b_xn + r ⊙ (W_hn h + b_hn))
        h' = (1 − z) ⊙ n + z ⊙ h

    Parameters
    ----------
    x : float array, (..., d_in)
        The token.
    h : float array, (..., d_h)
        The state before it.
    w_x, w_h : float arrays, (3 d_h, d_in) and (3 d_h, d_h)
        The matrices of r, z and n, one under the other.
    b_x, b_h : float arrays, (3 d_h,)

    Returns
    -------
    float array, (..., d_h)
        The state after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    Notes
    -----
    Cho et al. reset the state before its matrix, ``W_hn (r ⊙ h)``; PyTorch and we after it, so that
    all products with h can be taken at once. Bahdanau et al. swap z and 1 − z.

    References
    ----------
    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
    Translation", 2014 (arXiv:1406.1078), equations 5 to 8.

    Examples
    --------
    >>> zero = np.zeros((3, 1))
    >>> r_z_n = np.array([9.0, -9.0, 9.0])  # z is all but shut
    >>> gru_step(np.ones(1), np.array([5.0]), zero, zero, r_z_n, zero[:, 0]).round(4)
    array([1.0005])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=3)
    dtype = h.dtype
    x, h, w_x, w_h, b_x, b_h = map(widen, (x, h, w_x, w_h, b_x, b_h))
    x_r, x_z, x_n = np.split(x @ w_x.T + b_x, 3, axis=-1)  # (..., d_h) each
    h_r, h_z, h_n = np.split(h @ w_h.T + b_h, 3, axis=-1)
    r = sigmoid(x_r + h_r)  # reset: how much of h the candidate sees
    z = sigmoid(x_z + h_z)  # update: how much of h is kept
    n = np.tanh(x_n + r * h_n)  # the candidate for the new state
    return ((1 - z) * n + z * h).astype(dtype)


def lstm_step(
    x: NDArray,  # (..., d_in)
    h: NDArray,  # (..., d_h)
    c: NDArray,  # (..., d_h)
    w_x: NDArray,  # (4 d_h, d_in)
    w_h: NDArray,  # (4 d_h, d_h)
    b_x: NDArray,  # (4 d_h,)
    b_h: NDArray,  # (4 d_h,)
) -> tuple[NDArray, NDArray]:
    """Take a layer of long short-term memory one token further.

    The cell c is written to by the input gate i, kept by the forget gate f, and shown by the output
    gate o::

        i  = σ(W_xi x + b_xi + W_hi h + b_hi)
        f  = σ(W_xf x + b_xf + W_hf h + b_hf)
        g  = tanh(W_xg x + b_xg + W_hg h + b_hg)
        o  = σ(W_xo x + b_xo + W_ho h + b_ho)
        c' = f ⊙ c + i ⊙ g
        h' = o ⊙ tanh(c')

    Parameters
    ----------
    x : float array, (..., d_in)
        The token.
    h : float array, (..., d_h)
        The state before it.
    c : float array, (..., d_h)
        The cell before it.
    w_x, w_h : float arrays, (4 d_h, d_in) and (4 d_h, d_h)
        The matrices of i, f, g and o, one under the other.
    b_x, b_h : float arrays, (4 d_h,)

    Returns
    -------
    h, c : float arrays, (..., d_h)
        The state and the cell after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; the forget gate: Gers, Schmidhuber
    and Cummins, "Learning to Forget", 2000.

    Examples
    --------
    >>> zero = np.zeros((4, 1))
    >>> keep = np.array([-9.0, 9.0, 0.0, 9.0])  # i, f, g, o
    >>> x = h = np.ones(1)
    >>> h, c = lstm_step(x, h, np.array([3.0]), zero, zero, keep, zero[:, 0])
    >>> c.round(4)
    array([2.9996])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=4)
    check_cell(c, h)
    dtype = h.dtype
    x, h, c, w_x, w_h, b_x, b_h = map(widen, (x, h, c, w_x, w_h, b_x, b_h))
    gates = x @ w_x.T + b_x + h @ w_h.T + b_h  # (..., 4 d_h)
    i, f, g, o = np.split(gates, 4, axis=-1)  # (..., d_h) each
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    h = o * np.tanh(c)
    return h.astype(dtype), c.astype(dtype)


def rnn(
    xs: NDArray,  # (..., n, d_in)
    h: NDArray,  # (..., d_h)
    w_x: NDArray,  # (d_h, d_in)
    w_h: NDArray,  # (d_h, d_h)
    b_x: NDArray,  # (d_h,)
    b_h: NDArray,  # (d_h,)
) -> NDArray:
    """Run a plain recurrent layer over a sequence, token after token.

    Parameters
    ----------
    xs : float array, (..., n, d_in)
        The tokens.
    h : float array, (..., d_h)
        The state before the first.
    w_x, w_h, b_x, b_h
        As `rnn_step` takes them.

    Returns
    -------
    float array, (..., n, d_h)
        The state after each token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    Examples
    --------
    The state of a layer that hears nothing after the first token fades:

    >>> one = np.ones((1, 1))
    >>> xs = np.array([[1.0], [0.0], [0.0]])
    >>> rnn(xs, 0 * one[0], one, one / 2, 0 * one[0], 0 * one[0])[:, 0].round(4)
    array([0.7616, 0.3634, 0.1797])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=1)
    dtype = h.dtype
    xs, h, *weights = map(widen, (xs, h, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h = rnn_step(xs[..., t, :], h, *weights)
        states.append(h)
    return np.stack(states, axis=-2).astype(dtype)  # (..., n, d_h)


def gru(
    xs: NDArray,  # (..., n, d_in)
    h: NDArray,  # (..., d_h)
    w_x: NDArray,  # (3 d_h, d_in)
    w_h: NDArray,  # (3 d_h, d_h)
    b_x: NDArray,  # (3 d_h,)
    b_h: NDArray,  # (3 d_h,)
) -> NDArray:
    """Run a layer of gated recurrent units over a sequence, token after token.

    Parameters
    ----------
    xs : float array, (..., n, d_in)
        The tokens.
    h : float array, (..., d_h)
        The state before the first.
    w_x, w_h, b_x, b_h
        As `gru_step` takes them.

    Returns
    -------
    float array, (..., n, d_h)
        The state after each token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    Examples
    --------
    >>> zero = np.zeros((3, 1))
    >>> gru(np.ones((2, 1)), np.ones(1), zero, zero, zero[:, 0], zero[:, 0])[:, 0]
    array([0.5 , 0.25])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=3)
    dtype = h.dtype
    xs, h, *weights = map(widen, (xs, h, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h = gru_step(xs[..., t, :], h, *weights)
        states.append(h)
    return np.stack(states, axis=-2).astype(dtype)  # (..., n, d_h)


def lstm(
    xs: NDArray,  # (..., n, d_in)
    h: NDArray,  # (..., d_h)
    c: NDArray,  # (..., d_h)
    w_x: NDArray,  # (4 d_h, d_in)
    w_h: NDArray,  # (4 d_h, d_h)
    b_x: NDArray,  # (4 d_h,)
    b_h: NDArray,  # (4 d_h,)
) -> tuple[NDArray, NDArray]:
    """Run a layer of long short-term memory over a sequence, token after token.

    Parameters
    ----------
    xs : float array, (..., n, d_in)
        The tokens.
    h, c : float arrays, (..., d_h)
        The state and the cell before the first.
    w_x, w_h, b_x, b_h
        As `lstm_step` takes them.

    Returns
    -------
    states : float array, (..., n, d_h)
        The state after each token.
    c : float array, (..., d_h)
        The cell after the last.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    Examples
    --------
    >>> zero = np.zeros((4, 1))
    >>> h = c = np.ones(1)
    >>> states, c = lstm(np.ones((2, 1)), h, c, zero, zero, zero[:, 0], zero[:, 0])
    >>> c
    array([0.25])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=4)
    check_cell(c, h)
    dtype = h.dtype
    xs, h, c, *weights = map(widen, (xs, h, c, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h, c = lstm_step(xs[..., t, :], h, c, *weights)
        states.append(h)
    return np.stack(states, axis=-2).astype(dtype), c.astype(dtype)
