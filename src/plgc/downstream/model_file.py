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
from plgc.artifact.condensed import CHANNELS
from plgc.downstream.backbone import BESIDE, Backbone, BackboneSettings, Outputs, network_kind
from plgc.downstream.names import Names
from plgc.runtime.container import container_bytes, read_container
from plgc.runtime.errors import ArtifactError, PLGCError
from plgc.runtime.files import write_atomically

SCHEMA = 3  # 2 knew one channel and one part beside it, 1 no checksum; both are still read
CHECKSUM_SINCE = 2


def save_model(path: str | os.PathLike[str], kind: str, backbone: Backbone, head: Any, names: Names) -> Path:
    """Write a model, whole or not at all.

    Args:
        path: the file.
        kind: its format, such as ``plgc-node-model``.
        backbone: the frozen backbone.
        head: a dataclass of tensors; its ``header()`` gives what else it needs, as plain values.
        names: of classes and features.
    """
    header = {
        "format": kind,
        "schema": SCHEMA,
        "version": __version__,
        "backbone": asdict(backbone.settings),
        "num_features": backbone.num_features,
        "outputs": asdict(backbone.outputs),
        "beside": [name for name in backbone.parts if name in BESIDE],
        "scaling": backbone.scaling,
        "seed": backbone.seed,
        "head": head.header(),
        "names": names.to_header(),
    }
    tensors = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
    tensors |= {f"head.{name}": value for name, value in vars(head).items() if isinstance(value, Tensor)}
    return write_atomically(path, container_bytes(tensors, header))


def read_model(path: str | os.PathLike[str], heads: Mapping[str, Any]) -> tuple[str, Backbone, Any, Names]:
    """Read what :func:`save_model` wrote: the format, the frozen backbone, the head and the names.

    Args:
        path: the file.
        heads: by the format, the class of its head; ``from_file`` makes one.

    Raises:
        ArtifactError: the file cannot be opened, is not a model, or its parts do not fit.
    """
    tensors, header = read_container(path, tuple(heads), SCHEMA, CHECKSUM_SINCE)
    try:
        backbone = _read_backbone(header, _under("backbone.", tensors))
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
            raise ValueError("it holds NaN or infinite values")
        kind = header["format"]
        head = heads[kind].from_file(_under("head.", tensors), dict(header["head"]), backbone.parts)
        return kind, backbone, head, Names.from_header(header.get("names"), backbone.num_features, head.num_classes)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, PLGCError) as error:
        raise ArtifactError(f"{path} is damaged: {str(error)[:400]}") from error


def _read_backbone(header: Mapping[str, Any], weights: dict[str, Tensor]) -> Backbone:
    settings, width = BackboneSettings(**header["backbone"]), int(header["num_features"])
    if header["schema"] < 3:
        outputs, beside = Outputs(_widths(header["blocks"])), ["propagated_2"]
        weights = {f"networks.edges.{name.removeprefix('gnn.')}": value for name, value in weights.items()}
    else:
        given = dict(header["outputs"])
        outputs, beside = Outputs(**{channel: _widths(given.pop(channel)) for channel in CHANNELS}), header["beside"]
        if given or not set(beside) <= set(BESIDE) or len(set(beside)) < len(beside):
            raise ValueError(f"it describes parts that are not known: {', '.join(map(str, [*given, *beside]))}")
    for channel in CHANNELS:
        if blocks := outputs.of(channel):
            own = _under(f"networks.{channel}.", weights)
            _check_size(network_kind(settings, channel), settings, width, sum(blocks), own)
    backbone = Backbone(settings, width, outputs, str(header["scaling"]), int(header["seed"]), beside)
    backbone.load_state_dict(weights)
    return backbone.requires_grad_(False).eval()


def _widths(values: Any) -> tuple[int, ...]:
    widths = tuple(int(width) for width in values)
    if any(width < 1 for width in widths):
        raise ValueError(f"an output is {min(widths)} columns wide")
    return widths


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def _check_size(
    kind: str, settings: BackboneSettings, width: int, width_out: int, weights: Mapping[str, Tensor]
) -> None:
    """Raise where the network that is described has more weights than the file, before it is built."""
    if kind != "sgc" and settings.layers > len(weights):
        raise ValueError(f"it describes {settings.layers} layers, and has {len(weights)} tensors for them")
    hidden = [] if kind == "sgc" else [settings.hidden] * (settings.layers - 1)
    pairs = itertools.pairwise([width, *hidden, width_out])
    needed = sum(before * after + (after * after if kind == "gin" else 0) for before, after in pairs)
    held = sum(tensor.numel() for tensor in weights.values())
    if min(width, width_out) < 1 or needed > held:
        raise ValueError(f"it describes a network of {needed:,} weights or more, and has {held:,}")
