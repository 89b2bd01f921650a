"""Models on disk: a backbone and a head in one safetensors file, with a JSON description and a checksum. No pickle."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from plgc._version import __version__
from plgc.artifact.condensed import CHANNELS
from plgc.downstream.backbone import BESIDE, Backbone, BackboneSettings, Outputs, network_kind
from plgc.downstream.names import Names, NamesRecord
from plgc.runtime.container import container_bytes, read_container
from plgc.runtime.errors import ArtifactError, PLGCError
from plgc.runtime.files import write_atomically
from plgc.runtime.schema import Seed64, Since, Within, Word, read

SCHEMA = 4  # 3 knew no preprocessing, 2 one channel and one part beside it, 1 no checksum; both are still read
CHECKSUM_SINCE = 2
MOST_LAYERS = 1000  # products with Â of a kind whose layers have no weights
Width = Annotated[int, Within(1, 2**31 - 1)]
Blocks = tuple[Width, ...]


@dataclass(frozen=True)
class OutputsRecord:
    """The widths of what the networks give, by channel."""

    edges: Blocks
    plain: Blocks


@dataclass(frozen=True)
class ModelDescription:
    """The description of a model, in full."""

    format: str
    schema: int
    version: Word
    backbone: BackboneSettings
    num_features: Width
    scaling: Literal["l1", "l2", "none"]
    seed: Seed64
    head: dict[str, Any]
    names: NamesRecord | None = None
    blocks: Annotated[Blocks, Since(1, last=2)] = ()
    checksum: Annotated[str, Since(2)] = ""
    outputs: Annotated[OutputsRecord, Since(3)] = OutputsRecord((), ())
    beside: Annotated[tuple[Literal["x", "propagated_1", "propagated_2"], ...], Since(3)] = ()

    def __post_init__(self) -> None:
        if not (self.blocks or self.outputs.edges or self.outputs.plain):
            raise ValueError("it describes no output")
        if len(set(self.beside)) < len(self.beside):
            raise ValueError(f"it has a part twice: {', '.join(self.beside)}")
        if self.backbone.layers > MOST_LAYERS:
            raise ValueError(f"it describes {self.backbone.layers} layers, at most {MOST_LAYERS} are applied")


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
        about = read(ModelDescription, header, schema=header["schema"])
        _check_numbers(tensors)
        backbone = _read_backbone(about, _under("backbone.", tensors))
        head = heads[about.format].from_file(_under("head.", tensors), about.head, backbone.parts)
        if about.schema < 4 and about.names is not None and about.names.preprocessing is not None:
            raise ValueError(f"it describes a table, which schema {about.schema} does not know")
        names = Names() if about.names is None else about.names.checked(backbone.num_features, head.num_classes)
        return about.format, backbone, head, names
    except (ValueError, RuntimeError, PLGCError) as error:  # of load_state_dict, where names and shapes differ
        raise ArtifactError(f"{path} is damaged: {str(error)[:400]}") from error


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Raise unless every tensor is part of the backbone or the head, and holds numbers that can be computed with."""
    for name, tensor in tensors.items():
        if not name.startswith(("backbone.", "head.")):
            raise ValueError(f"its tensor {name[:100]!r} is unknown")
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name[:100]!r} is {tensor.dtype}, not float32")
        if not torch.isfinite(tensor).all():
            raise ValueError("it holds NaN or infinite values")


def _read_backbone(about: ModelDescription, weights: dict[str, Tensor]) -> Backbone:
    settings, width, beside = about.backbone, about.num_features, about.beside
    outputs = Outputs(about.outputs.edges, about.outputs.plain)
    if about.schema < 3:
        outputs, beside = Outputs(about.blocks), ("propagated_2",)
        weights = {f"networks.edges.{name.removeprefix('gnn.')}": value for name, value in weights.items()}
    for channel in CHANNELS:
        if blocks := outputs.of(channel):
            own = _under(f"networks.{channel}.", weights)
            _check_size(network_kind(settings, channel), settings, width, sum(blocks), own)
    backbone = Backbone(settings, width, outputs, about.scaling, about.seed, beside)
    backbone.load_state_dict(weights)
    return backbone.requires_grad_(False).eval()


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
