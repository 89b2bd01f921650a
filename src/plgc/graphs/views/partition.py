"""Cut one graph into parts: one for every owner, or for every machine where a graph is too large for one.

A partition is a number for every node, int64 [N]; parts are counted from 0 and none is empty. A part is the subgraph
of its nodes, on request with a halo: the nodes within some hops around it, which give their features and edges without
belonging to it. Every draw has its own generator, so it neither reads nor changes torch's global random state.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import node_count
from plgc.graphs.load import node_labels
from plgc.graphs.standard import symmetric_edges
from plgc.graphs.views.edges import edge_blocks, edges_of, pair_keys, within_hops
from plgc.graphs.views.inductive import induced_subgraph
from plgc.graphs.views.splits import labels_present
from plgc.graphs.views.stream import stream_partition
from plgc.runtime.errors import LabelError, MissingExtraError, SettingError
from plgc.runtime.mapped import is_mapped

PARTITIONS = ("random", "metis", "stream", "skewed")
LEAST_SHARE = 0.1  # a skewed part has at least this share of what an equal part would have
REDRAWS = 100
KEPT = ("seen", "split_index", "split_seed")  # what a condensed file records of the graph


def partition_nodes(graph: Data, parts: int, how: str, *, seed: int = 0, alpha: float = 1.0) -> Tensor:
    """Give every node the number of its part, int64 [N]; no part is empty.

    Args:
        graph: the graph to cut; labels are read by ``skewed`` alone.
        parts: how many parts, from 2 to the number of nodes.
        how: ``random``: sizes differ by at most one; ``metis``: sizes about equal and few edges cut, edge weights not
            considered; ``stream``: the same for graphs that METIS cannot hold, in a few passes over the edges
            (:mod:`plgc.graphs.views.stream`); ``skewed``: classes unequally spread, for experiments only, since it
            reads the labels.
        seed: of the draws, and of METIS.
        alpha: concentration of the skew. Every class is divided by its own draw from Dirichlet(α, …, α): the smaller,
            the more uneven; from about 100 on parts are nearly alike. Used by ``skewed`` alone.

    Raises:
        SettingError: parts, how or alpha cannot be had for this graph.
        LabelError: ``skewed`` on a graph without labels.
        MissingExtraError: ``metis`` or ``stream`` without pymetis.
    """
    nodes = node_count(graph)
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 2:
        raise SettingError(f"parts is {parts!r}: a graph is cut into at least 2 parts")
    if parts > nodes:
        raise SettingError(f"parts is {parts}, but the graph has only {nodes} nodes: ask for fewer parts")
    if how == "random":
        return _random(nodes, parts, seed)
    if how == "metis":
        return _fill(_metis(graph, nodes, parts, seed), parts, 1)
    if how == "stream":
        return _fill(stream_partition(_sorted_edges(graph, nodes), nodes, parts, seed), parts, 1)
    if how == "skewed":
        return _skewed(graph, nodes, parts, seed, alpha)
    raise SettingError(f"there is no partition {how!r}: choose {', '.join(PARTITIONS[:-1])} or {PARTITIONS[-1]}")


def cut_parts(graph: Data, part: Tensor, *, halo: int = 0) -> list[Data]:
    """Every part of a partition, in order, as :func:`cut_part` gives it."""
    return [cut_part(graph, part, number, halo=halo) for number in range(_count_parts(graph, part))]


def cut_part(graph: Data, part: Tensor, number: int, *, halo: int = 0) -> Data:
    """Cut one part out of a graph: the subgraph induced by its nodes and its halo.

    Args:
        graph: the graph that was partitioned.
        part: the part of every node, as :func:`partition_nodes` gives it.
        number: which part.
        halo: nodes up to this many hops away, in either direction of an edge, come along.

    Returns:
        A new ``Data``: nodes renumbered in order, with their features, labels and masks and the edges among them,
        ``core_mask`` (bool [n], True for the part's own nodes, False for the halo) and ``node_index`` (int64 [n],
        numbers in the whole graph).
    """
    count = _count_parts(graph, part)
    if not 0 <= number < count:
        raise SettingError(f"part {number} was asked for, there are {count} (0 to {count - 1})")
    check_halo(halo)
    core = part == number
    chosen = within_hops(edges_of(graph), core, halo)
    cut = induced_subgraph(graph, chosen)
    cut.node_index = chosen.nonzero().flatten()
    cut.core_mask = core[cut.node_index]
    for key in KEPT:
        cut[key] = attribute(graph, key)
    return cut


def check_halo(halo: int) -> None:
    """Raise unless this is a number of hops."""
    if isinstance(halo, bool) or not isinstance(halo, int) or halo < 0:
        raise SettingError(f"halo is {halo!r}: it must be a number of hops, 0 or more")


def cut_edges(edge_index: Tensor, part: Tensor) -> int:
    """How many undirected edges join different parts, each counted once however it is written."""
    if is_mapped(edge_index):  # both directions of every edge, once
        return sum(int((part[edges[0]] != part[edges[1]]).sum()) for _, edges in edge_blocks(edge_index)) // 2
    across = edge_index[:, part[edge_index[0]] != part[edge_index[1]]]
    return pair_keys(across, part.numel()).unique().numel()


def _random(nodes: int, parts: int, seed: int) -> Tensor:
    part = torch.empty(nodes, dtype=torch.int64)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    part[order] = torch.arange(nodes) % parts
    return part


def _metis(graph: Data, nodes: int, parts: int, seed: int) -> Tensor:
    try:
        import pymetis
    except ImportError as error:
        raise MissingExtraError("METIS partitions need pymetis: pip install 'plgc[metis]'") from error
    row, column = _sorted_edges(graph, nodes)
    starts = torch.cat([row.new_zeros(1), torch.bincount(row, minlength=nodes).cumsum(0)])
    adjacency = pymetis.CSRAdjacency(starts.numpy(), column.numpy())
    options = pymetis.Options(seed=seed % 2**31)  # METIS keeps 32 bits, and takes −1 for "none given"
    return torch.tensor(pymetis.part_graph(parts, adjacency, options=options).vertex_part, dtype=torch.int64)


def _sorted_edges(graph: Data, nodes: int) -> Tensor:
    """Both directions of every edge, sorted; those of a graph on disk are as they are."""
    edge_index = edges_of(graph)
    return edge_index if is_mapped(edge_index) else symmetric_edges(edge_index, nodes)[0]


def _skewed(graph: Data, nodes: int, parts: int, seed: int, alpha: float) -> Tensor:
    """Draw until every part has its least share; after many draws, the largest parts give nodes away instead."""
    if not 0 < alpha < math.inf:
        raise SettingError(f"alpha is {alpha}: the concentration of the Dirichlet draw must be above 0 and finite")
    try:
        y = node_labels(graph)
    except LabelError as error:
        raise LabelError(f"{error}, and skewed parts are made by class: use random or metis") from error
    rng = np.random.default_rng(seed % 2**63)
    least = max(1, math.floor(LEAST_SHARE * nodes / parts))
    part = _skewed_draw(y, parts, alpha, rng)
    for _ in range(REDRAWS):
        if int(torch.bincount(part, minlength=parts).min()) >= least:
            break
        part = _skewed_draw(y, parts, alpha, rng)
    return _fill(part, parts, least)


def _skewed_draw(y: Tensor, parts: int, alpha: float, rng: np.random.Generator) -> Tensor:
    """Divide every class by a Dirichlet draw; nodes without a label evenly."""
    part = torch.empty_like(y)
    for label in [*labels_present(y), -1]:
        members = (y == label).nonzero().flatten().numpy()
        rng.shuffle(members)
        share = rng.dirichlet([alpha] * parts) if label >= 0 else np.full(parts, 1 / parts)
        ends = np.rint(share.cumsum()[:-1] * len(members)).astype(np.int64)
        part[torch.from_numpy(members)] = torch.from_numpy(np.searchsorted(ends, np.arange(len(members)), "right"))
    return part


def _fill(part: Tensor, parts: int, least: int) -> Tensor:
    """Bring every part to ``least`` nodes; what is missing is taken from the end of whichever part is largest."""
    sizes = torch.bincount(part, minlength=parts)
    for small in (sizes < least).nonzero().flatten().tolist():
        while (missing := least - int(sizes[small])) > 0:
            large = int(sizes.argmax())
            given = (part == large).nonzero().flatten()[-min(missing, int(sizes[large]) - least) :]
            part[given] = small
            sizes = torch.bincount(part, minlength=parts)
    return part


def _count_parts(graph: Data, part: Tensor) -> int:
    """How many parts there are, all of them with a node."""
    nodes = node_count(graph)
    if part.dtype != torch.int64 or part.shape != (nodes,) or int(part.min()) < 0:
        raise SettingError(
            f"the partition is {part.dtype} of shape {list(part.shape)}, expected the part of each of the {nodes} "
            "nodes, counted from 0, as partition_nodes gives it"
        )
    sizes = torch.bincount(part)
    if not bool(sizes.all()):
        raise SettingError(f"part {int(sizes.argmin())} of {sizes.numel()} has no nodes: number the parts without gaps")
    return sizes.numel()
