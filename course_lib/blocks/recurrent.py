"""Recurrent layers, one step and a whole sequence: a plain one, GRU and LSTM, in PyTorch.

Weights lie as ``torch.nn.RNN``, ``GRU`` and ``LSTM`` keep them: the g matrices of a layer's gates
under one another, ``w_x`` (g d_h, d_in) for the token and ``w_h`` (g d_h, d_h) for the state, each
with a bias. Half-precision input is computed in single precision and returned in half, rounded
once a call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.precision import widen
from course_lib.validation import check_cell, check_float, check_recurrence, check_step

__all__ = [
    "gru",
    "gru_step",
    "lstm",
    "lstm_step",
    "rnn",
    "rnn_step",
    "sigmoid",
]


def sigmoid(x: Tensor) -> Tensor:
    """Squash numbers into (0, 1): how far a gate is open.

    ``σ(x) = 1 / (1 + exp(−x))``.

    Parameters
    ----------
    x : float tensor of any shape

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point.

    Examples
    --------
    >>> sigmoid(torch.tensor([-1000.0, 0.0, 1.0]))
    tensor([0.0000, 0.5000, 0.7311])
    """
    check_float("x", x)
    return torch.sigmoid(widen(x)).to(x.dtype)


def rnn_step(
    x: Tensor,  # (..., d_in)
    h: Tensor,  # (..., d_h)
    w_x: Tensor,  # (d_h, d_in)
    w_h: Tensor,  # (d_h, d_h)
    b_x: Tensor,  # (d_h,)
    b_h: Tensor,  # (d_h,)
) -> Tensor:
    """Take a plain recurrent layer one token further.

    ``h' = tanh(W_x x + b_x + W_h h + b_h)`` (Elman 1990, with tanh).

    Parameters
    ----------
    x : float tensor, (..., d_in)
        The token.
    h : float tensor, (..., d_h)
        The state before it.
    w_x, w_h : float tensors, (d_h, d_in) and (d_h, d_h)
    b_x, b_h : float tensors, (d_h,)

    Returns
    -------
    float tensor, (..., d_h)
        The state after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    References
    ----------
    Elman, "Finding Structure in Time", 1990.

    Examples
    --------
    >>> one = torch.ones(1, 1)
    >>> rnn_step(one[0], one[0], one, one, one[0], one[0])
    tensor([0.9993])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=1)
    dtype = h.dtype
    x, h, w_x, w_h, b_x, b_h = map(widen, (x, h, w_x, w_h, b_x, b_h))
    return torch.tanh(x @ w_x.T + b_x + h @ w_h.T + b_h).to(dtype)


def gru_step(
    x: Tensor,  # (..., d_in)
    h: Tensor,  # (..., d_h)
    w_x: Tensor,  # (3 d_h, d_in)
    w_h: Tensor,  # (3 d_h, d_h)
    b_x: Tensor,  # (3 d_h,)
    b_h: Tensor,  # (3 d_h,)
) -> Tensor:
    """Take a gated recurrent unit one token further.

    The reset gate r says how much of the state the candidate n gets to see, the update gate z how
    much of the state is kept::

        r  = σ(W_xr x + b_xr + W_hr h + b_hr)
        z  = σ(W_xz x + b_xz + W_hz h + b_hz)
        n  = tanh(W_xn x + b_xn + r ⊙ (W_hn h + b_hn))
        h' = (1 − z) ⊙ n + z ⊙ h

    Parameters
    ----------
    x : float tensor, (..., d_in)
        The token.
    h : float tensor, (..., d_h)
        The state before it.
    w_x, w_h : float tensors, (3 d_h, d_in) and (3 d_h, d_h)
        The matrices of r, z and n, one under the other.
    b_x, b_h : float tensors, (3 d_h,)

    Returns
    -------
    float tensor, (..., d_h)
        The state after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

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
    >>> zero = torch.zeros(3, 1)
    >>> r_z_n = torch.tensor([9.0, -9.0, 9.0])  # z is all but shut
    >>> gru_step(torch.ones(1), torch.tensor([5.0]), zero, zero, r_z_n, zero[:, 0])
    tensor([1.0005])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=3)
    dtype = h.dtype
    x, h, w_x, w_h, b_x, b_h = map(widen, (x, h, w_x, w_h, b_x, b_h))
    x_r, x_z, x_n = (x @ w_x.T + b_x).chunk(3, dim=-1)  # (..., d_h) each
    h_r, h_z, h_n = (h @ w_h.T + b_h).chunk(3, dim=-1)
    r = sigmoid(x_r + h_r)  # reset: how much of h the candidate sees
    z = sigmoid(x_z + h_z)  # update: how much of h is kept
    n = torch.tanh(x_n + r * h_n)  # the candidate for the new state
    return ((1 - z) * n + z * h).to(dtype)


def lstm_step(
    x: Tensor,  # (..., d_in)
    h: Tensor,  # (..., d_h)
    c: Tensor,  # (..., d_h)
    w_x: Tensor,  # (4 d_h, d_in)
    w_h: Tensor,  # (4 d_h, d_h)
    b_x: Tensor,  # (4 d_h,)
    b_h: Tensor,  # (4 d_h,)
) -> tuple[Tensor, Tensor]:
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
    x : float tensor, (..., d_in)
        The token.
    h : float tensor, (..., d_h)
        The state before it.
    c : float tensor, (..., d_h)
        The cell before it.
    w_x, w_h : float tensors, (4 d_h, d_in) and (4 d_h, d_h)
        The matrices of i, f, g and o, one under the other.
    b_x, b_h : float tensors, (4 d_h,)

    Returns
    -------
    h, c : float tensors, (..., d_h)
        The state and the cell after it.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; the forget gate: Gers, Schmidhuber
    and Cummins, "Learning to Forget", 2000.

    Examples
    --------
    >>> zero = torch.zeros(4, 1)
    >>> keep = torch.tensor([-9.0, 9.0, 0.0, 9.0])  # i, f, g, o
    >>> x = h = torch.ones(1)
    >>> h, c = lstm_step(x, h, torch.tensor([3.0]), zero, zero, keep, zero[:, 0])
    >>> c
    tensor([2.9996])
    """
    check_step(x, h, w_x, w_h, b_x, b_h, n_gates=4)
    check_cell(c, h)
    dtype = h.dtype
    x, h, c, w_x, w_h, b_x, b_h = map(widen, (x, h, c, w_x, w_h, b_x, b_h))
    gates = x @ w_x.T + b_x + h @ w_h.T + b_h  # (..., 4 d_h)
    i, f, g, o = gates.chunk(4, dim=-1)  # (..., d_h) each
    i, f, g, o = sigmoid(i), sigmoid(f), torch.tanh(g), sigmoid(o)
    c = f * c + i * g
    h = o * torch.tanh(c)
    return h.to(dtype), c.to(dtype)


def rnn(
    xs: Tensor,  # (..., n, d_in)
    h: Tensor,  # (..., d_h)
    w_x: Tensor,  # (d_h, d_in)
    w_h: Tensor,  # (d_h, d_h)
    b_x: Tensor,  # (d_h,)
    b_h: Tensor,  # (d_h,)
) -> Tensor:
    """Run a plain recurrent layer over a sequence, token after token.

    Parameters
    ----------
    xs : float tensor, (..., n, d_in)
        The tokens.
    h : float tensor, (..., d_h)
        The state before the first.
    w_x, w_h, b_x, b_h
        As `rnn_step` takes them.

    Returns
    -------
    float tensor, (..., n, d_h)
        The state after each token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    Examples
    --------
    The state of a layer that hears nothing after the first token fades:

    >>> one = torch.ones(1, 1)
    >>> xs = torch.tensor([[1.0], [0.0], [0.0]])
    >>> rnn(xs, 0 * one[0], one, one / 2, 0 * one[0], 0 * one[0])[:, 0]
    tensor([0.7616, 0.3634, 0.1797])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=1)
    dtype = h.dtype
    xs, h, *weights = map(widen, (xs, h, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h = rnn_step(xs[..., t, :], h, *weights)
        states.append(h)
    return torch.stack(states, dim=-2).to(dtype)  # (..., n, d_h)


def gru(
    xs: Tensor,  # (..., n, d_in)
    h: Tensor,  # (..., d_h)
    w_x: Tensor,  # (3 d_h, d_in)
    w_h: Tensor,  # (3 d_h, d_h)
    b_x: Tensor,  # (3 d_h,)
    b_h: Tensor,  # (3 d_h,)
) -> Tensor:
    """Run a layer of gated recurrent units over a sequence, token after token.

    Parameters
    ----------
    xs : float tensor, (..., n, d_in)
        The tokens.
    h : float tensor, (..., d_h)
        The state before the first.
    w_x, w_h, b_x, b_h
        As `gru_step` takes them.

    Returns
    -------
    float tensor, (..., n, d_h)
        The state after each token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    Examples
    --------
    >>> zero = torch.zeros(3, 1)
    >>> gru(torch.ones(2, 1), torch.ones(1), zero, zero, zero[:, 0], zero[:, 0])[:, 0]
    tensor([0.5000, 0.2500])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=3)
    dtype = h.dtype
    xs, h, *weights = map(widen, (xs, h, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h = gru_step(xs[..., t, :], h, *weights)
        states.append(h)
    return torch.stack(states, dim=-2).to(dtype)  # (..., n, d_h)


def lstm(
    xs: Tensor,  # (..., n, d_in)
    h: Tensor,  # (..., d_h)
    c: Tensor,  # (..., d_h)
    w_x: Tensor,  # (4 d_h, d_in)
    w_h: Tensor,  # (4 d_h, d_h)
    b_x: Tensor,  # (4 d_h,)
    b_h: Tensor,  # (4 d_h,)
) -> tuple[Tensor, Tensor]:
    """Run a layer of long short-term memory over a sequence, token after token.

    Parameters
    ----------
    xs : float tensor, (..., n, d_in)
        The tokens.
    h, c : float tensors, (..., d_h)
        The state and the cell before the first.
    w_x, w_h, b_x, b_h
        As `lstm_step` takes them.

    Returns
    -------
    states : float tensor, (..., n, d_h)
        The state after each token.
    c : float tensor, (..., d_h)
        The cell after the last.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    Examples
    --------
    >>> zero = torch.zeros(4, 1)
    >>> h = c = torch.ones(1)
    >>> states, c = lstm(torch.ones(2, 1), h, c, zero, zero, zero[:, 0], zero[:, 0])
    >>> c
    tensor([0.2500])
    """
    check_recurrence(xs, h, w_x, w_h, b_x, b_h, n_gates=4)
    check_cell(c, h)
    dtype = h.dtype
    xs, h, c, *weights = map(widen, (xs, h, c, w_x, w_h, b_x, b_h))
    states = []
    for t in range(xs.shape[-2]):
        h, c = lstm_step(xs[..., t, :], h, c, *weights)
        states.append(h)
    return torch.stack(states, dim=-2).to(dtype), c.to(dtype)
