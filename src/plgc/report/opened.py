"""What the report is about: condensed graphs, recorded runs and the graph, each opened and checked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.experiments.records import FILE as RECORDS
from plgc.experiments.records import read_records
from plgc.graphs.check import node_count
from plgc.graphs.load import load_graph
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.sources import MANIFEST, OpenSource, open_sources, read_manifest

GraphSource = str | os.PathLike[str] | Data


@dataclass(frozen=True)
class OpenGraph:
    """The graph to compare with, and what it may be called in a file that travels.

    Attributes:
        source: as it was given: evaluation loads it anew for every seed.
        data: loaded.
        name: for people.
        given: for a command, quoted as a shell takes it: the name, or the file's name without its folders.
        bytes: of features and edges as tensors.
    """

    source: GraphSource
    data: Data
    name: str
    given: str
    bytes: int

    @property
    def labelled(self) -> bool:
        """Whether any node has a class."""
        return self.data._store.get("y") is not None and bool((self.data["y"] >= 0).any())


@dataclass(frozen=True)
class Opened:
    """Everything that was given."""

    sources: list[OpenSource]
    partition: dict[str, Any] | None
    records: list[dict[str, Any]]
    graph: OpenGraph | None


def open_all(
    paths: Sequence[str | os.PathLike[str]],
    runs: Sequence[str | os.PathLike[str]] = (),
    graph: GraphSource | None = None,
    graph_name: str | None = None,
    nodes_table: str | os.PathLike[str] | None = None,
    graph_options: Sequence[str] = (),
) -> Opened:
    """Open condensed files, folders of them, run folders and the graph.

    Raises:
        ArtifactError: a file is missing or is not a condensed graph.
        GraphError: features differ between the files, or between them and the graph.
        SettingError: nothing was given, or a run has no records.
    """
    found = [Path(path) for path in paths]
    run_paths = [path for path in found if is_run(path)] + [Path(path) for path in runs]
    files = [path for path in found if not is_run(path)]
    if not files and not run_paths:
        raise SettingError("nothing to report on: name a file made by 'plgc condense', or a folder of a run")
    for path in files:
        if path.is_dir() and not (path / MANIFEST).is_file():
            raise ArtifactError(
                f"{path} is a folder with neither {MANIFEST} (of condensed graphs) nor {RECORDS} (of a run): name a "
                "file, or a folder that has one of them"
            )
    sources = _named_apart(open_sources(files))
    folders = [path if path.is_dir() else path.parent for path in files if path.is_dir() or path.name == MANIFEST]
    partition = read_manifest(folders[0]).partition if len(files) == len(folders) == 1 else None
    opened = None if graph is None else _open_graph(graph, graph_name, nodes_table, graph_options)
    if opened is not None and sources:
        _check_width(sources, opened)
    return Opened(sources, partition, _open_runs(run_paths), opened)


def _named_apart(sources: Sequence[OpenSource]) -> list[OpenSource]:
    """The same with names that differ: files of one name come from several folders, which are not told."""
    names: list[str] = []
    for source in sources:
        name, number = source.name, 1
        while name in names:
            number += 1
            name = f"{source.name} ({number})"
        names.append(name)
    return [replace(source, name=name) for source, name in zip(sources, names, strict=True)]


def is_run(path: Path) -> bool:
    """Whether a path names the records of a run: the file, or its folder."""
    return path.name == RECORDS or (path.is_dir() and (path / RECORDS).is_file() and not (path / MANIFEST).is_file())


def _open_runs(paths: Sequence[Path]) -> list[dict[str, Any]]:
    files = [path if path.name == RECORDS else path / RECORDS for path in paths]
    for path in files:
        if not path.is_file():
            raise SettingError(f"there are no records in {path.parent}: run 'plgc experiment run NAME' first")
    records = read_records(files)
    if files and not records:
        raise SettingError(f"{files[0]} holds no records: run 'plgc experiment run NAME' first")
    return records


def _open_graph(
    source: GraphSource, name: str | None, table: str | os.PathLike[str] | None, options: Sequence[str]
) -> OpenGraph:
    data = load_graph(source) if table is None else load_graph(source, nodes_table=table)
    given = shlex.quote(name or (data.name if isinstance(source, Data) else Path(source).name))
    if table is not None:
        source, given = data, f"{given} --nodes-table {shlex.quote(Path(table).name)}"
    given = " ".join([given, *(shlex.quote(option) for option in options)])
    return OpenGraph(source, data, data.name, given, tensor_bytes(data))


def tensor_bytes(graph: Data) -> int:
    """Bytes of a graph's features and edges (in both directions) in memory: sparse features count what they store."""
    tensors = [graph.edge_index, graph._store.get("edge_weight")]
    x = graph.x
    tensors += (
        [] if x is None else [x.crow_indices(), x.col_indices(), x.values()] if x.layout == torch.sparse_csr else [x]
    )
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def _check_width(sources: Sequence[OpenSource], graph: OpenGraph) -> None:
    width, own = 0 if graph.data.x is None else graph.data.x.shape[1], sources[0].condensed.num_features
    if width != own:
        raise GraphError(
            f"{sources[0].name} has {own} features per node, the graph {graph.name} has {width}: give the graph that "
            f"was condensed, or one with the same features ({node_count(graph.data)} nodes were found)"
        )
