"""Weights by name: read from files, and put into a model that calls them otherwise, in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.validation import describe

__all__ = ["Source", "config_dictionary", "load_weights", "read_safetensors"]


@dataclass(frozen=True)
class Source:
    """Where weights of ours stand in somebody else's checkpoint.

    Parameters
    ----------
    name : str
        What the tensor is called there.
    ours : tuple of str
        What it is called in our ``state_dict()``; several where it holds the rows of one behind
        those of another.
    transposed : bool, default False
        Whether the matrix there is (d_in, d_out), and ours, as ``nn.Linear`` has it, (d_out, d_in).
    """

    name: str
    ours: tuple[str, ...]
    transposed: bool = False


def load_weights(
    model: nn.Module,
    state_dict: Mapping[str, Tensor],
    sources: Sequence[Source],
    *,
    ignored: str = r"(?!)",
    copies: Mapping[str, str] | None = None,
) -> None:
    """Put somebody else's tensors in the place of a model's parameters: all of them, or none.

    Parameters
    ----------
    model : nn.Module
        Its parameters may be on the device "meta": they are replaced.
    state_dict : mapping of names to tensors
        Copied; the model's weights have the dtype of the first source's.
    sources : sequence of Source
        One for each tensor that is needed; together they name every parameter of the model.
    ignored : str, optional
        A regular expression: tensors whose name it matches somewhere are no weights.
    copies : mapping of names to names, optional
        Tensors that may be there, and must equal another one then: a tied matrix is often stored
        twice.

    Raises
    ------
    ValueError
        If `state_dict` isn't a mapping of names to tensors of floats, or lacks a tensor, has one
        too many, or one of another shape; each of them is named.

    Examples
    --------
    >>> model, theirs = nn.Linear(2, 3, bias=False), {"kernel": torch.ones(2, 3)}
    >>> load_weights(model, theirs, [Source("kernel", ("weight",), transposed=True)])
    >>> model.weight.shape
    torch.Size([3, 2])
    """
    copies = copies or {}
    _check_tensors(state_dict)
    parameters = model.state_dict()
    unused = re.compile(ignored)
    needed = {source.name for source in sources}
    there = {name for name in state_dict if not unused.search(name) and name not in copies}
    faults = [f"{name} is missing" for name in sorted(needed - there)]
    faults += [f"{name} is one too many" for name in sorted(there - needed)]
    for source in sources:
        if source.name in there:
            shape, tensor = _their_shape(source, parameters), state_dict[source.name]
            if tuple(tensor.shape) != shape:
                faults.append(f"{source.name} has a shape {tuple(tensor.shape)}, not {shape}")
            elif not tensor.is_floating_point():
                faults.append(f"{source.name} holds {describe(tensor)}, no floating-point numbers")
    for name, original in copies.items():
        if {name, original} <= set(state_dict) and not torch.equal(
            state_dict[name], state_dict[original]
        ):
            faults.append(f"{name} is not equal to {original}, to which it is tied")
    if faults:
        raise ValueError(
            f"state_dict must hold what the configuration asks for; {'; '.join(faults)}"
        )
    dtype = state_dict[sources[0].name].dtype
    loaded: dict[str, Tensor] = {}
    for source in sources:
        tensor = state_dict[source.name].detach()
        rows = tensor.T if source.transposed and tensor.ndim == 2 else tensor
        sizes = [len(parameters[ours]) for ours in source.ours]
        for ours, part in zip(source.ours, rows.split(sizes), strict=True):
            loaded[ours] = part.to(dtype, copy=True).contiguous()
    model.load_state_dict(loaded, assign=True)


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """Read a file of tensors in the format "safetensors", by the package of that name.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict of names to tensors

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModuleNotFoundError
        If safetensors isn't installed.
    ValueError
        If the file isn't one of this format, or ends too early.
    """
    try:
        library = import_module("safetensors")
        load_file = import_module("safetensors.torch").load_file
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "files of tensors are read by the package safetensors: pip install safetensors"
        ) from None
    path = Path(path)
    try:
        return load_file(path)
    except library.SafetensorError as error:
        raise ValueError(f"path must be a file of safetensors; {path.name}: {error}") from None


def config_dictionary(config: Any) -> dict[str, Any]:
    """Return a configuration of transformers as a dictionary.

    Parameters
    ----------
    config : mapping, or an object that has ``to_dict()``

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is neither, or doesn't say its "model_type".

    Examples
    --------
    >>> config_dictionary({"model_type": "gpt2", "n_embd": 768})["n_embd"]
    768
    """
    found = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(found, Mapping):
        raise ValueError(
            "config must be a configuration of transformers, or the dictionary that its "
            f"config.json holds; got {describe(config)}"
        )
    if not isinstance(found.get("model_type"), str):
        raise ValueError(f"config must say its model_type; got {found.get('model_type')!r}")
    return dict(found)


def _check_tensors(state_dict: Any) -> None:
    """Raise unless `state_dict` maps names to tensors."""
    if not isinstance(state_dict, Mapping):
        raise ValueError(
            f"state_dict must be a dictionary of tensors by name; got {describe(state_dict)}"
        )
    for name, tensor in state_dict.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(
                f"state_dict must be a dictionary of tensors by name; got {describe(tensor)} as "
                f"{name!r}"
            )


def _their_shape(source: Source, parameters: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Return the shape that a tensor must have to become these weights of ours."""
    shapes = [tuple(parameters[name].shape) for name in source.ours]
    stacked = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    return stacked[::-1] if source.transposed else stacked
