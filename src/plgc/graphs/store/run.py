"""Store a graph that is larger than memory as a folder of npy files: nodes, edges in sorted runs, all of it."""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plgc._version import __version__
from plgc.graphs.attributes import attribute
from plgc.graphs.check import MASKS
from plgc.graphs.formats.arrays import graph_to_arrays, make_meta
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.stored import flush_folder
from plgc.graphs.load import ClassLikeWarning, existing, tell
from plgc.graphs.preprocessing import Preprocessing
from plgc.graphs.standard import set_split, standard_form
from plgc.graphs.store.budget import check_memory, sorted_keys
from plgc.graphs.store.edges import join_edges, merge_edges, sort_edges
from plgc.graphs.store.parts import is_arrays
from plgc.graphs.store.runs import Runs
from plgc.graphs.store.sources import ArraySource, TableSource
from plgc.graphs.store.work import ENDING, Work, work_folder
from plgc.runtime.checkpoint import run_key
from plgc.runtime.errors import GraphError, PLGCError, SettingError
from plgc.runtime.files import WriteError, check_writable
from plgc.runtime.options import parse_memory
from plgc.runtime.progress import Progress, nested, shown

MEMORY = "1GiB"


def store_graph(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    nodes_table: str | os.PathLike[str] | None = None,
    columns: TableColumns | None = None,
    dtype: str | None = None,
    memory: int | str = MEMORY,
    threads: int | None = None,
    progress: Progress | bool | None = True,
    notice: Callable[[str], None] | bool | None = True,
) -> Path:
    """Write a graph that may be larger than memory as a folder of npy files, which :func:`plgc.load_graph` maps.

    The files are those that :func:`save_stored` would write of the graph in memory, edges in order, except that no
    split is drawn for labels without one. Where a run is stopped, the same call goes on after its last finished step,
    from ``PATH.storing``; inputs that have changed are read anew. The folder appears at the end, whole.

    Args:
        source: an edge list in Parquet, CSV or TSV, one file or a folder of parts with the same columns; or arrays: a
            folder of npy files, an npz or a safetensors file.
        path: the folder to write. It must not exist yet.
        nodes_table: for an edge list, the table of its nodes, in one file or a folder of parts.
        columns: which column of the tables is what, as in :func:`plgc.load_graph`; a ``time`` is kept as ``year``.
        dtype: of dense features, ``float32`` or ``float16``; by default float16 where they are, else float32.
        memory: bytes to stay within, as a number or a text such as ``1GiB``: what the process itself takes. Mapped
            files are not counted.
        threads: CPU threads with which Parquet and CSV are read; by default all.
        progress: as in :func:`plgc.condense`.
        notice: as in :func:`plgc.load_graph`.

    Raises:
        GraphNotFoundError: there is no such file or folder.
        GraphError: the graph is not sound; the message names the part.
        SettingError: the folder is there already, a column is not, or memory or disk do not suffice.
        WriteError: the disk is full or write-protected.
    """
    target, budget = Path(os.path.abspath(path)), parse_memory(memory)
    if dtype not in (None, "float32", "float16"):
        raise SettingError(f"dtype is {dtype!r}: choose float32 or float16")
    if os.path.lexists(target):
        raise SettingError(f"{target} is there already: name a folder that is not")
    check_writable(target)
    place, nodes = existing(source), None if nodes_table is None else existing(nodes_table)
    if is_arrays(place) and (nodes is not None or columns not in (None, TableColumns())):
        raise SettingError(f"a node table and columns go with an edge list (Parquet, CSV, TSV), not with {place}")
    if columns is not None and columns.until is not None:
        raise SettingError(f"until is {columns.until}: the whole graph is stored; give until when it is loaded")
    with shown(progress) as report, _threads(threads), _disk_errors(target), work_folder(target) as work:
        notes = list[str]()
        if is_arrays(place):
            graph = ArraySource(place, work.folder / "unpacked")
        else:
            graph = TableSource(place, nodes, columns or TableColumns(), notes)
        doubts = _store(graph, work, target, (columns or TableColumns(), dtype), budget, notes, report)
        os.rename(work.graph, target)
    for doubt in doubts:
        warnings.warn(doubt, ClassLikeWarning, stacklevel=2)
    tell(doubts, notes, notice)
    return target


def _store(
    graph: TableSource | ArraySource,
    work: Work,
    target: Path,
    asked: tuple[TableColumns, str | None],
    memory: int,
    notes: list[str],
    report: Progress,
) -> list[str]:
    """Do the steps that have not been done, and collect the files; return what is doubtful in the table."""
    columns, known = asked[0], asked[0].preprocessing
    text = [repr(replace(columns, preprocessing=None)), None if known is None else known.to_dict(), asked[1]]
    key = run_key(asked=text, files=_state(graph.node_files), plgc=__version__)
    found = work.step("nodes", key, lambda folder: _nodes(graph, folder, memory, asked[1], _share(report, "nodes", 0)))
    nodes, edge_key = found["nodes"], run_key(nodes=key, files=_state(graph.edge_files))
    check_memory(memory, nodes)  # which may be less than when the nodes were stored

    def sort(folder: Path) -> dict[str, Any]:
        told = list[str]()
        edges = graph.edges(work.folder / "nodes", folder, told)
        runs = Runs(folder, sorted_keys(memory, nodes, edges.weighted), edges.weighted)
        sort_edges(edges.blocks, nodes, runs, edges.weighted, edges.total, _share(report, "edges", 1))
        shutil.rmtree(folder / "weights", ignore_errors=True)
        return {"runs": runs.count, "weighted": edges.weighted, "roles": edges.roles, "notes": told}

    def merge(folder: Path) -> dict[str, Any]:
        told = work.step("runs", edge_key, sort)
        capacity = sorted_keys(memory, nodes, told["weighted"])
        runs, share = work.folder / "runs", _share(report, "edges", 2)
        entries = merge_edges(runs, told["runs"], nodes, capacity, told["weighted"], folder, share)
        work.forget("runs")  # before the files are joined: the disk need not hold both
        join_edges(folder, entries, told["weighted"])
        return {**told, "entries": entries}

    edges = work.step("edges", edge_key, merge)
    meta = {**found["meta"], "name": target.name, "edges": edges["entries"]}
    if (table := meta.get("preprocessing")) is not None:
        learned = Preprocessing.from_dict(table)
        meta["preprocessing"] = replace(learned, roles={**(learned.roles or {}), **edges["roles"]}).to_dict()
    folder = work.collect("nodes", "edges")
    np.save(folder / "meta.npy", np.array(json.dumps(meta)))
    flush_folder(folder)
    notes += [*found["notes"], *edges["notes"]]
    return found["doubts"]


def _nodes(
    graph: TableSource | ArraySource, folder: Path, memory: int, dtype: str | None, report: Progress
) -> dict[str, Any]:
    """Write everything that is known of nodes into a folder; return what is plain values."""
    notes = list[str]()
    found = graph.nodes(folder, memory, dtype, notes, report)
    shutil.rmtree(folder / "columns", ignore_errors=True)
    x, names, doubts = (attribute(found, name) for name in ("x", "feature_names", "doubts"))
    count, masks = int(found["num_nodes"]), {key: found[key] for key in MASKS if key in found}
    found.update({"x": None, "feature_names": None, "doubts": None, "name": graph.name})
    found.edge_index, found.edge_weight = torch.zeros(2, 0, dtype=torch.int64), None
    found.y = attribute(found, "y", torch.full((count,), -1))
    data = standard_form(found)
    data.update({**masks, "seen": attribute(found, "seen"), "split_origin": attribute(found, "split_origin")})
    if masks:
        set_split(copy.copy(data), 0, 0)  # which checks them
    if names is not None:
        if x is None or len(names) != x.shape[1]:
            raise GraphError(f"{graph.name}: feature_names has {len(names)} entries, expected one a feature")
        data.feature_names = names
    sparse = x if x is not None and x.layout == torch.sparse_csr else None
    arrays = graph_to_arrays(data, sparse)
    for key, array in arrays.items():
        if key != "edge_index" and not (key == "num_nodes" and (folder / "x_shape.npy").exists()):
            np.save(folder / f"{key}.npy", array, allow_pickle=False)
    data.x = x
    return {
        "nodes": count,
        "meta": json.loads(str(make_meta(data, graph.name))),
        "notes": notes,
        "doubts": doubts or [],
    }


def _state(files: list[Path]) -> list[Any]:
    """Files by path, size and time of change."""
    return [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _share(report: Progress, what: str, step: int) -> Progress:
    share = nested(report, what, step, 3)
    assert share is not None
    return share


@contextlib.contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    """Let pyarrow read with this many threads."""
    if threads is None:
        yield
        return
    if threads < 1:
        raise SettingError(f"threads is {threads}: give 1 or more")
    try:
        import pyarrow
    except ImportError:  # text is then read without it, with one
        yield
        return
    before = pyarrow.cpu_count()
    pyarrow.set_cpu_count(threads)
    try:
        yield
    finally:
        pyarrow.set_cpu_count(before)


@contextlib.contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    """Errors of the disk as ours."""
    try:
        yield
    except PLGCError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        kept = Path(f"{target}{ENDING}")
        left = f"finished steps are kept in {kept}, and not done again" if kept.exists() else "nothing is left of it"
        advice = "Make room" if full else "See that the disks can be read and written"
        raise WriteError(
            f"cannot write {target}: {error.strerror or error}; {left}. {advice} and give the same command again"
        ) from error
