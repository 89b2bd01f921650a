"""Models on disk: a backbone and a head in one safetensors file, with a JSON description. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from plgc._version import __version__
from plgc.artifact import read_safetensors
from plgc.backbone import Backbone, BackboneSettings
from plgc.files import write_atomically

SCHEMA = 1


def save_model(
    path: str | os.PathLike[str], kind: str, backbone: Backbone, head: Mapping[str, Tensor], settings: dict[str, Any]
) -> Path:
    """Write a model, whole or not at all.

    Args:
        path: the file.
        kind: its format, such as ``plgc-node-model``.
        backbone: the frozen backbone.
        head: the head's tensors by name.
        settings: whatever else the head needs, as plain values.
    """
    header = {
        "format": kind,
        "schema": SCHEMA,
        "version": __version__,
        "backbone": asdict(backbone.settings),
        "num_features": backbone.num_features,
        "blocks": list(backbone.blocks),
        "scaling": backbone.scaling,
        "seed": backbone.seed,
        "head": settings,
    }
    tensors = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
    tensors |= {f"head.{name}": value for name, value in head.items()}
    tensors = {name: value.cpu().contiguous() for name, value in tensors.items()}
    return write_atomically(path, save(tensors, {"plgc": json.dumps(header, sort_keys=True)}))


def read_model(
    path: str | os.PathLike[str], kinds: tuple[str, ...]
) -> tuple[str, Backbone, dict[str, Tensor], dict[str, Any]]:
    """The format, the frozen backbone, the head's tensors and its settings.

    Raises:
        ArtifactError: the file cannot be opened, or is not a model.
        KeyError, TypeError, ValueError, RuntimeError: its parts do not fit.
    """
    tensors, header = read_safetensors(path, kinds, SCHEMA)
    settings = BackboneSettings(**header["backbone"])
    blocks = tuple(int(width) for width in header["blocks"])
    backbone = Backbone(settings, int(header["num_features"]), blocks, str(header["scaling"]), int(header["seed"]))
    backbone.load_state_dict(_under("backbone.", tensors))
    if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
        raise ValueError("it holds NaN or infinite values")
    return header["format"], backbone.requires_grad_(False).eval(), _under("head.", tensors), dict(header["head"])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
