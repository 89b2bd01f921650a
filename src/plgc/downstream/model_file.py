"""Models on disk: a backbone and a head in one safetensors file, with a JSON description and a checksum. No pickle."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plgc._version import __version__
from plgc.downstream.backbone import Backbone, BackboneSettings
from plgc.downstream.names import Names
from plgc.runtime.container import read_sealed, seal
from plgc.runtime.files import write_atomically

SCHEMA = 2  # 1 had no checksum; it is still read
SEALED = 2  # the first with a checksum


def save_model(
    path: str | os.PathLike[str],
    kind: str,
    backbone: Backbone,
    head: Mapping[str, Tensor],
    settings: dict[str, Any],
    names: Names,
) -> Path:
    """Write a model, whole or not at all.

    Args:
        path: the file.
        kind: its format, such as ``plgc-node-model``.
        backbone: the frozen backbone.
        head: the head's tensors by name.
        settings: whatever else the head needs, as plain values.
        names: of classes and features.
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
        "names": names.to_header(),
    }
    tensors = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
    tensors |= {f"head.{name}": value for name, value in head.items()}
    return write_atomically(path, seal(tensors, header))


def read_model(
    path: str | os.PathLike[str], kinds: tuple[str, ...]
) -> tuple[str, Backbone, dict[str, Tensor], dict[str, Any], Any]:
    """The format, the frozen backbone, the head's tensors and its settings, and the names as they stand in the file.

    Raises:
        ArtifactError: the file cannot be opened, or is not a model.
        KeyError, TypeError, ValueError, RuntimeError, ArithmeticError: its parts do not fit.
    """
    tensors, header = read_sealed(path, kinds, SCHEMA, SEALED)
    settings, weights = BackboneSettings(**header["backbone"]), _under("backbone.", tensors)
    blocks, width = tuple(int(width) for width in header["blocks"]), int(header["num_features"])
    _check_size(settings, width, sum(blocks), weights)
    backbone = Backbone(settings, width, blocks, str(header["scaling"]), int(header["seed"]))
    backbone.load_state_dict(weights)
    if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
        raise ValueError("it holds NaN or infinite values")
    backbone = backbone.requires_grad_(False).eval()
    return header["format"], backbone, _under("head.", tensors), dict(header["head"]), header.get("names")


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def _check_size(settings: BackboneSettings, width: int, width_out: int, weights: Mapping[str, Tensor]) -> None:
    """Raise where the backbone that is described has more weights than the file, before it is built."""
    if settings.kind != "sgc" and settings.layers > len(weights):
        raise ValueError(f"it describes {settings.layers} layers, and has {len(weights)} tensors for them")
    hidden = [] if settings.kind == "sgc" else [settings.hidden] * (settings.layers - 1)
    pairs = itertools.pairwise([width, *hidden, width_out])
    needed = sum(before * after + (after * after if settings.kind == "gin" else 0) for before, after in pairs)
    held = sum(tensor.numel() for tensor in weights.values())
    if min(width, width_out) < 1 or needed > held:
        raise ValueError(f"it describes a backbone of {needed:,} weights or more, and has {held:,}")
