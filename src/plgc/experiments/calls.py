"""The condensations of a cell: of one graph, of the parts it is cut into, or of the graphs of its family."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.experiments.grid import Cell
from plgc.experiments.store import CondenseCall
from plgc.experiments.variants import VARIANTS
from plgc.graphs.check import node_count
from plgc.graphs.labels import training_labels
from plgc.graphs.load import load_graph
from plgc.graphs.views.partition import cut_edges, cut_parts, partition_nodes
from plgc.graphs.views.protocol import Case
from plgc.rivals.methods import method_named
from plgc.runtime.errors import SettingError
from plgc.runtime.files import write_atomically
from plgc.sources import share_nodes, source_seed

MIN_CLUSTER = 5  # of several sources; the paper has no minimum


def condense_calls(cell: Cell, case: Case, store: Path | None = None) -> tuple[list[CondenseCall], float | None]:
    """Every condensation of a cell, and the share of edges that the cut removes, in per cent; None without parts.

    Args:
        cell: what to condense.
        case: the cell's protocol, drawn on its graph.
        store: where cuts by METIS are kept; None to cut anew.
    """
    cell = _by_history(cell)
    assert cell.nodes is not None
    given = case.given if method_named(cell.method).supervised else None
    minimum = MIN_CLUSTER if cell.method == "plgc" and cell.preset != "paper" else None
    if cell.sources is not None:
        if given is not None:
            raise SettingError(f"{cell.method} needs labels of every source: only label-free methods share sources")
        family = (cell.family or cell.graph).split("+")
        kept = {"own": {cell.graph}, "others": set(family) - {cell.graph}}.get(cell.sources, set(family))
        return [
            CondenseCall(
                cell.method,
                load_graph(name, seed=cell.seed, notice=False),
                None,
                cell.nodes,
                _seed(cell, i),
                cell.preset,
                minimum,
                private=cell.private,
            )
            for i, name in enumerate(family)
            if name in kept
        ], None
    if cell.parts is None or cell.partition == "none":
        minimum = minimum if cell.parts else None
        own = None if cell.variant is None else VARIANTS[cell.variant].settings
        how = (cell.nodes, cell.seed, cell.preset, minimum, own, cell.private)
        return [CondenseCall(cell.method, case.seen, given, *how)], None
    if given is not None and cell.noise is None:
        raise SettingError("several sources with labels are compared under a rate of wrong ones: name a noise level")
    cut, _, alpha = (cell.partition or "random").partition("-")
    if cut == "metis":
        part = cut_once(store, case.seen, cell.parts, cell.seed)
    else:
        part = partition_nodes(case.seen, cell.parts, cut, seed=cell.seed, alpha=float(alpha or 1))
    graphs = cut_parts(case.seen, part)
    calls = []
    for place, nodes in enumerate(share_nodes(cell.nodes, [node_count(graph) for graph in graphs])):
        graph, seed = graphs[place], _seed(cell, place)
        # Labels of each part are flipped by themselves.
        labels = None if given is None else training_labels(graph, noise=cell.noise or 0.0, seed=seed)
        how = (nodes, seed, cell.preset, minimum)
        calls.append(CondenseCall(cell.method, graph, labels, *how, private=cell.private))
    assert case.seen.edge_index is not None
    return calls, 200 * cut_edges(case.seen.edge_index, part) / case.seen.edge_index.shape[1]


def _by_history(cell: Cell) -> Cell:
    """The same with the sources that its history needs: the uncut graph, its own file, or all of them."""
    if cell.history is None:
        return cell
    if cell.family is not None:
        return replace(cell, sources="own" if cell.history == "own" else "all")
    return replace(cell, partition="none") if cell.history == "whole" else cell


def cut_once(store: Path | None, graph: Data, parts: int, seed: int) -> Tensor:
    """Cut a graph by METIS, or find the cut in the store, where a machine that has pymetis may have put it."""
    edges = graph.edge_index
    assert edges is not None
    key = hashlib.sha256(f"{node_count(graph)} {parts} {seed} ".encode() + edges.to(torch.int64).numpy().tobytes())
    path = None if store is None else store / f"metis-{key.hexdigest()[:32]}.npy"
    if path is not None and path.is_file():
        return torch.from_numpy(np.load(path, allow_pickle=False).astype(np.int64))
    part = partition_nodes(graph, parts, "metis", seed=seed)
    if path is not None:
        content = io.BytesIO()
        np.save(content, part.numpy().astype(np.int32))
        write_atomically(path, content.getvalue())
    return part


def _seed(cell: Cell, place: int) -> int:
    """A seed of its own for every source, unless all are to start from the same weights."""
    return cell.seed if cell.combine == "shared-seed" else source_seed(cell.seed, place)
