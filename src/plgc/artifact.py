"""The condensed graph on disk: one safetensors file, described in ten lines.

Tensors: ``features`` X' [K, f] float32, ``pseudo_labels`` Ỹ [K, d] float32, ``counts`` [K] int64 (how many original
nodes each synthetic node stands for). The header has one metadata entry, ``plgc``: a JSON object with ``format``,
``schema``, ``version`` (of the package), ``seed``, ``threads``, ``scaling`` (row scaling of the features), ``blocks``
(how Ỹ's columns split into one unit vector per encoder), ``settings``, ``nodes_requested``, ``chosen`` (what was chosen
from the graph itself), ``curves`` (losses of both stages), ``source`` (node, edge and feature counts of the original)
and ``fingerprint``. No pickle, no time, no path, no host, no name.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from plgc._version import __version__
from plgc.errors import ArtifactError
from plgc.files import write_atomically

FORMAT = "plgc-condensed-graph"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class CondensedGraph:
    """A condensed graph 𝒮 = (X', A' = I) with its pseudo-labels Ỹ, and how it was made."""

    features: Tensor
    pseudo_labels: Tensor
    counts: Tensor
    blocks: tuple[int, ...]
    scaling: str
    seed: int
    threads: int
    settings: dict[str, Any]
    nodes_requested: int
    chosen: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    source: dict[str, int] = field(default_factory=dict)
    fingerprint: str | None = None
    version: str = __version__

    @property
    def num_nodes(self) -> int:
        """K, the number of synthetic nodes."""
        return self.features.shape[0]

    @property
    def num_features(self) -> int:
        """f, the feature width it shares with the graph it came from."""
        return self.features.shape[1]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, whole or not at all."""
        return write_atomically(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's content. Equal condensed graphs give equal bytes."""
        header = {
            "format": FORMAT,
            "schema": SCHEMA,
            "version": self.version,
            "seed": self.seed,
            "threads": self.threads,
            "scaling": self.scaling,
            "blocks": list(self.blocks),
            "settings": self.settings,
            "nodes_requested": self.nodes_requested,
            "chosen": self.chosen,
            "curves": self.curves,
            "source": self.source,
            "fingerprint": self.fingerprint,
        }
        tensors = {
            "features": self.features.contiguous(),
            "pseudo_labels": self.pseudo_labels.contiguous(),
            "counts": self.counts.contiguous(),
        }
        # One metadata key: safetensors keeps several in no fixed order, and equal graphs must give equal bytes.
        return save(tensors, {"plgc": json.dumps(header, sort_keys=True, allow_nan=False)})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CondensedGraph:
        """Open a file made by :meth:`save`; anything else is refused with the reason."""
        tensors, header = read_safetensors(path, FORMAT, SCHEMA)
        try:
            graph = CondensedGraph(
                features=tensors["features"],
                pseudo_labels=tensors["pseudo_labels"],
                counts=tensors["counts"],
                blocks=tuple(int(width) for width in header["blocks"]),
                scaling=str(header["scaling"]),
                seed=int(header["seed"]),
                threads=int(header["threads"]),
                settings=dict(header["settings"]),
                nodes_requested=int(header["nodes_requested"]),
                chosen=dict(header["chosen"]),
                curves={str(name): [float(v) for v in values] for name, values in dict(header["curves"]).items()},
                source={str(name): int(value) for name, value in dict(header["source"]).items()},
                fingerprint=header["fingerprint"],
                version=str(header["version"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArtifactError(f"{path} is damaged: its description is incomplete ({error!r})") from error
        _check(graph, path)
        return graph


def read_safetensors(
    path: str | os.PathLike[str], expected_format: str, schema: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read one of our safetensors files: its tensors and its JSON description."""
    path = Path(path)
    if not path.exists():
        raise ArtifactError(f"there is no file {path}")
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder, not a file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            header = _header(path, metadata, expected_format, schema)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise ArtifactError(
            f"{path} cannot be opened: damaged, cut short, or not a safetensors file ({error})"
        ) from error
    return tensors, header


def _header(path: Path, metadata: dict[str, str], expected_format: str, schema: int) -> dict[str, Any]:
    if "plgc" not in metadata:
        raise ArtifactError(f"{path} is a safetensors file, but not one of plgc's: it has no description")
    try:
        header = json.loads(metadata["plgc"])
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: its description is not readable ({error})") from error
    found = header.get("format") if isinstance(header, dict) else None
    if found != expected_format:
        raise ArtifactError(f"{path} holds {found!r}, where {expected_format!r} is needed")
    if not isinstance(header.get("schema"), int) or header["schema"] < 1:
        raise ArtifactError(f"{path} is damaged: schema {header.get('schema')!r} is not a version number")
    if header["schema"] > schema:
        raise ArtifactError(
            f"{path} has schema {header['schema']}, written by plgc {header.get('version', 'of a later version')}; "
            f"this plgc {__version__} reads up to schema {schema}: upgrade plgc"
        )
    return header


def _check(graph: CondensedGraph, path: str | os.PathLike[str]) -> None:
    """Refuse a file whose parts do not fit each other."""
    features, labels, counts = graph.features, graph.pseudo_labels, graph.counts
    problem = None
    if features.dtype != torch.float32 or features.ndim != 2 or 0 in features.shape:
        problem = f"features are {features.dtype} {tuple(features.shape)}, not float32 [K, f]"
    elif labels.dtype != torch.float32 or labels.ndim != 2 or labels.shape[0] != features.shape[0]:
        problem = f"pseudo-labels are {labels.dtype} {tuple(labels.shape)}, not float32 [{features.shape[0]}, d]"
    elif counts.dtype != torch.int64 or counts.shape != features.shape[:1]:
        problem = f"counts are {counts.dtype} {tuple(counts.shape)}, not int64 [{features.shape[0]}]"
    elif int(counts.min()) < 0:
        problem = f"a count is {int(counts.min())}, below 0"
    elif not graph.blocks or min(graph.blocks) < 1 or sum(graph.blocks) != labels.shape[1]:
        problem = f"blocks {graph.blocks} do not add up to the {labels.shape[1]} columns of the pseudo-labels"
    elif not (torch.isfinite(features).all() and torch.isfinite(labels).all()):
        problem = "it holds NaN or infinite values"
    elif graph.scaling not in ("l1", "l2", "none"):
        problem = f"scaling {graph.scaling!r} is unknown"
    if problem:
        raise ArtifactError(f"{path} is damaged: {problem}")
