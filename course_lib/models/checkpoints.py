"""Models from the folders in which transformers keeps them: config.json and model.safetensors."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from course_lib.models.decoder_only import DecoderOnly
from course_lib.models.encoder_only import EncoderOnly
from course_lib.models.weights import config_dictionary, read_safetensors

__all__ = ["load_checkpoint", "read_checkpoint"]

_MODELS: dict[str, type[DecoderOnly | EncoderOnly]] = {
    "bert": EncoderOnly, "gpt2": DecoderOnly, "llama": DecoderOnly,
}  # fmt: skip


def load_checkpoint(
    folder: str | Path | None = None, *, repo_id: str | None = None
) -> DecoderOnly | EncoderOnly:
    """Return the model that a folder holds, or a repository of the Hugging Face hub.

    Parameters
    ----------
    folder : str or Path, optional
        With config.json, and model.safetensors or its parts and their index.
    repo_id : str, optional
        In place of `folder`: a repository, such as "openai-community/gpt2", which is fetched once
        and kept by the package huggingface_hub.

    Returns
    -------
    DecoderOnly or EncoderOnly
        In evaluation mode; which of them, the configuration's model_type says.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ModuleNotFoundError
        If a repository is asked for, and huggingface_hub isn't installed.
    ValueError
        If not exactly one of the two is given, a file isn't what it is called, or the model is none
        of ours.

    Examples
    --------
    >>> load_checkpoint("a folder", repo_id="openai-community/gpt2")
    Traceback (most recent call last):
    ...
    ValueError: folder or repo_id must be given, and not both; got 'a folder' and \
'openai-community/gpt2'
    """
    if (folder is None) == (repo_id is None):
        raise ValueError(
            f"folder or repo_id must be given, and not both; got {folder!r} and {repo_id!r}"
        )
    config, weights = read_checkpoint(_fetch(repo_id) if folder is None else folder)
    kind = config["model_type"]
    if kind not in _MODELS:
        raise ValueError(
            f"config.json must have a model_type among {', '.join(_MODELS)}; got {kind!r}"
        )
    return _MODELS[kind].from_transformers(weights, config)


def read_checkpoint(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a folder holds, as it is: the configuration and the tensors by name.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    config : dict
    weights : dict of names to tensors

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file isn't what it is called, or the index names a tensor that isn't where it says.
    """
    folder = Path(folder)
    config = config_dictionary(_read_json(folder / "config.json"))
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").exists() or not index.exists():
        return config, read_safetensors(folder / "model.safetensors")
    places = _read_json(index).get("weight_map")
    if not isinstance(places, dict):
        raise ValueError(f"{index.name} must have a weight_map; got {places!r}")
    weights: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name:  # an index that was tampered with shall read nothing else
            raise ValueError(f"{index.name} must name files of its own folder; got {name!r}")
        part = read_safetensors(folder / name)
        for key in part:
            if places.get(key) != name:
                raise ValueError(
                    f"{index.name} must say where each tensor is; {key} is in {name}, not in "
                    f"{places.get(key)!r}"
                )
        weights |= part
    missing = sorted(set(places) - set(weights))
    if missing:
        name = missing[0]
        raise ValueError(
            f"{index.name} must say where each tensor is; {name} isn't in {places[name]}"
        )
    return config, weights


def _read_json(path: Path) -> dict[str, Any]:
    """Return what a file holds, or raise where that is no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path.name} must be JSON; it can't be read as such") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} must hold a JSON object; got {type(found).__name__}")
    return found


def _fetch(repo_id: str | None) -> Path:
    """Return the folder of a repository of the hub, fetched where it isn't there."""
    try:
        hub = import_module("huggingface_hub")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "repositories of the hub are fetched by the package huggingface_hub: "
            "pip install huggingface_hub"
        ) from None
    files = ["config.json", "model*.safetensors", "model.safetensors.index.json"]
    return Path(hub.snapshot_download(repo_id, allow_patterns=files))
