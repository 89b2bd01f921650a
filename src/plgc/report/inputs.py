"""What a report is made from: condensed graphs, recorded runs and a graph to compare with, each opened and checked."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from plgc.experiments.records import FILE as RECORDS
from plgc.experiments.records import read_records
from plgc.graphs.attributes import attribute
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.npz import npz_bytes
from plgc.graphs.load import load_graph
from plgc.graphs.preprocessing import common_preprocessing
from plgc.graphs.width import check_width, feature_width
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.sources import MANIFEST, OpenSource, open_sources, read_manifest

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class ReportOptions:
    """The options of a report.

    Attributes:
        graph: the graph that was condensed, or one with the same features: adds the map, the bounds and, where it has
            labels, accuracy.
        graph_name: the graph's name in the command that repeats the file; by default its own, or its file's.
        nodes_table: for an edge list, the table of its nodes.
        graph_options: options of the command line by which a graph given as ``Data`` was read, for the same command.
        runs: further folders with records of ``plgc experiment run``.
        seed: of every random choice, and the first of the seeds below.
        seeds: how often accuracy is measured; 0 leaves it out, which saves most of the time.
        shots: labels per class for a second comparison of accuracy.
        device: where to compute, such as ``cpu`` or ``cuda``.
        title: of the page; by default made from the graph's name.
    """

    graph: AnyPath | Data | None = None
    graph_name: str | None = None
    nodes_table: AnyPath | None = None
    graph_options: Sequence[str] = ()
    runs: Sequence[AnyPath] = ()
    seed: int = 0
    seeds: int = 3
    shots: int | None = None
    device: str = "cpu"
    title: str | None = None


@dataclass(frozen=True)
class ReportGraph:
    """The graph to compare with.

    Attributes:
        source: as it was given: evaluation loads it for every seed.
        data: loaded.
        argument: how a command names it, quoted for a shell: its name, or its file's name without the folders.
    """

    source: AnyPath | Data
    data: Data
    argument: str

    @property
    def name(self) -> str:
        """The graph's own name."""
        return self.data.name

    @property
    def labelled(self) -> bool:
        """Whether any node has a class."""
        labels = attribute(self.data, "y")
        return labels is not None and bool((labels >= 0).any())

    @cached_property
    def bytes(self) -> int:
        """Bytes of features and edges as an npz file: on disk, as those of a condensed file are."""
        return npz_bytes(self.data)


@dataclass(frozen=True)
class ReportInputs:
    """Everything that was given, opened.

    Attributes:
        sources: the condensed graphs, under names that differ.
        partition: how one graph was cut, where the sources are its parts.
        records: of the runs.
        graph: the graph to compare with.
    """

    sources: list[OpenSource]
    partition: dict[str, Any] | None
    records: list[dict[str, Any]]
    graph: ReportGraph | None


def open_inputs(files: Sequence[AnyPath], options: ReportOptions) -> ReportInputs:
    """Open condensed files, folders of them, run folders and the graph.

    Raises:
        ArtifactError: a file is missing or is not a condensed graph.
        GraphError: features differ between the files, or between them and the graph.
        SettingError: nothing was given, or a run has no records.
    """
    paths = [Path(file) for file in files]
    runs = [path for path in paths if is_run(path)] + [Path(run) for run in options.runs]
    paths = [path for path in paths if not is_run(path)]
    if not paths and not runs:
        raise SettingError("nothing to report on: name a file made by 'plgc condense', or a folder of a run")
    for path in paths:
        if path.is_dir() and not (path / MANIFEST).is_file():
            raise ArtifactError(
                f"{path} is a folder with neither {MANIFEST} (of condensed graphs) nor {RECORDS} (of a run): name a "
                "file, or a folder that has one of them"
            )
    sources = _with_unique_names(open_sources(paths))
    graph = _open_graph(options, sources)
    if graph is not None and sources:
        own, width = sources[0].condensed.num_features, feature_width(graph.data)
        check_width(sources[0].name, own, f"the graph {graph.name}", width)
    return ReportInputs(sources, _partition(paths), _read_runs(runs), graph)


def is_run(path: Path) -> bool:
    """Whether a path names the records of a run: the file, or its folder."""
    return path.name == RECORDS or (path.is_dir() and (path / RECORDS).is_file() and not (path / MANIFEST).is_file())


def _with_unique_names(sources: Sequence[OpenSource]) -> list[OpenSource]:
    """Number the files that have the same name, from several folders: the report shows no folder."""
    names: list[str] = []
    for source in sources:
        numbered = (f"{source.name} ({number})" for number in itertools.count(2))
        names.append(next(name for name in itertools.chain([source.name], numbered) if name not in names))
    return [replace(source, name=name) for source, name in zip(sources, names, strict=True)]


def _partition(files: Sequence[Path]) -> dict[str, Any] | None:
    folders = [path if path.is_dir() else path.parent for path in files if path.is_dir() or path.name == MANIFEST]
    return read_manifest(folders[0]).partition if len(files) == len(folders) == 1 else None


def _read_runs(paths: Sequence[Path]) -> list[dict[str, Any]]:
    files = [path if path.name == RECORDS else path / RECORDS for path in paths]
    for path in files:
        if not path.is_file():
            raise SettingError(f"there are no records in {path.parent}: run 'plgc experiment run NAME' first")
    records = read_records(files)
    if files and not records:
        raise SettingError(f"{files[0]} holds no records: run 'plgc experiment run NAME' first")
    return records


def _open_graph(options: ReportOptions, sources: Sequence[OpenSource]) -> ReportGraph | None:
    source, table = options.graph, options.nodes_table
    if source is None:
        return None
    known = common_preprocessing([(one.name, one.condensed.seen.preprocessing) for one in sources]) if sources else None
    columns = None if known is None else TableColumns(preprocessing=known)
    data = load_graph(source, nodes_table=table, columns=columns, notice=False)
    words = [options.graph_name or (data.name if isinstance(source, Data) else Path(source).name)]
    words += [] if table is None else ["--nodes-table", Path(table).name]
    return ReportGraph(source if table is None else data, data, shlex.join([*words, *options.graph_options]))
