"""Forget nodes: they and their edges leave the graph, and the condensed graph is made of what remains.

Stage I starts from the old file (:mod:`plgc.method.warm`), so that it costs a part of condensing again. X', Ỹ and
counts are means and sums over the remaining nodes alone: of the removed ones, only the start of the encoders knew.

Nothing in the result names them. It has no checksum of the old file and no sizes of it: whoever has the remaining graph
and a guess at the missing nodes could condense both, and compare. For the same reason the ancestry of the old file is
left out, and how far pseudo-labels have moved. Who holds the old file too can compare the two.

Words of a table that no remaining node has lose their column, and so the file's description no longer lists them. Its
medians and spreads stay as they were learned.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.ancestry import Ancestor
from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.graphs.check import check_content
from plgc.graphs.derive import fastrp
from plgc.graphs.features import from_scipy, take_rows, to_scipy
from plgc.graphs.preprocessing import Preprocessing
from plgc.method.condense import Given, condense_bare
from plgc.method.disk.budget import check_remaining
from plgc.method.release import Release
from plgc.method.update import FEWEST, check_fits, resolve_size, settings_of
from plgc.method.warm import Known
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.options import Compute, accepts, check_device
from plgc.runtime.progress import Progress
from plgc.sparse.inputs import fingerprint


@accepts(compute=Compute, release=Release)
def forget(
    condensed: CondensedGraph,
    graph: Data | BareGraph,
    ids: Tensor | Sequence[int],
    *,
    ratio: float | None = None,
    nodes: int | None = None,
    exact: bool = False,
    unchecked: bool = False,
    seed: int | None = None,
    progress: Progress | bool | None = True,
    checkpoint: str | os.PathLike[str] | None = None,
    compute: Compute,
    release: Release,
) -> CondensedGraph:
    """The condensed graph without some nodes and their edges. Labels are never read.

    Args:
        condensed: what :func:`plgc.condense` or :func:`plgc.update` made of ``graph``. Its settings hold on.
        graph: the graph that it was made of, with the nodes that are to leave.
        ids: which nodes leave: their numbers, or bool [N].
        ratio: size as a fraction of the remaining nodes; or
        nodes: size as a number, K. By default the ratio of the condensed graph.
        exact: condense the remaining graph from nothing: the same bytes as :func:`plgc.condense` of it gives.
        unchecked: take a condensed graph without a fingerprint, where its counts agree with those of the graph.
        seed: drives augmentation; by default that of the condensed graph.
        progress: as in :func:`plgc.condense`, and
        checkpoint: likewise.
        compute: ``device``, ``threads``, ``memory`` and ``precision``, given as plain keywords.
        release: likewise ``min_cluster``, ``max_share``, ``clip``, ``noise`` and ``fingerprint``; the first two are by
            default those of the condensed graph.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> condensed = plgc.condense(graph, nodes=40)
        >>> plgc.forget(condensed, graph, [5, 17]).source["nodes"]
        2998
    """
    check_device(compute.device)
    settings = settings_of(condensed, compute, release)
    bare = bare_graph(graph)
    check_remaining(bare, compute.budget)
    check_fits(condensed, bare)
    check_same_graph(condensed, bare, unchecked)
    remaining, columns = without(bare, ids)
    count = resolve_size(condensed, remaining.num_own, ratio, nodes)
    seed = condensed.seed if seed is None else seed
    given = Given(compute, release.after(condensed.settings), progress, checkpoint)
    if exact:
        return condense_bare(remaining, count, settings, seed, given)
    known = condensed if columns is None else replace(condensed, features=condensed.features[:, columns])
    made = condense_bare(remaining, count, settings, seed, given, Known(known))
    return replace(made, ancestry=(Ancestor("forget", ()),))


def check_same_graph(condensed: CondensedGraph, graph: BareGraph, unchecked: bool) -> None:
    """Raise unless a condensed graph was made of this graph, by its fingerprint or, on request, by its counts.

    Raises:
        ArtifactError: it was made of another one, or that cannot be told.
    """
    if condensed.fingerprint is not None:
        if condensed.fingerprint != fingerprint(graph):
            raise ArtifactError(
                "this condensed graph was not made of this graph: its fingerprint is another. Give the graph that was "
                "condensed, with the nodes that are to leave"
            )
        return
    if not unchecked:
        raise ArtifactError(
            "this condensed graph has no fingerprint, so that nothing tells whether it was made of this graph: if you "
            "know that it was, give unchecked (--unchecked), and its counts are compared"
        )
    exact = "clip" not in condensed.settings and not condensed.settings.get("private")  # else counts are changed too
    known = {name: value for name, value in condensed.source.items() if name == "features" or exact}
    for name, value in known.items():
        found = graph.counts.get(name, 0)
        if found != value:
            raise ArtifactError(
                f"this condensed graph was made of a graph with {value} {name}, this one has {found}: give the graph "
                "that was condensed"
            )


def without(graph: BareGraph, ids: Tensor | Sequence[int]) -> tuple[BareGraph, Tensor | None]:
    """The graph without some nodes and their edges; the others keep their order.

    Features that were derived from the edges are derived again: they knew the edges that leave. Words of a table that
    have become too rare to be listed lose their column; the second result says which columns stay, None for all.

    Raises:
        SettingError: ids name no node, or one that is not there.
        GraphError: what is left cannot be condensed.
    """
    left = ~_mask(ids, graph.num_nodes)
    own = left if graph.core_mask is None else left & graph.core_mask
    gone = graph.num_nodes - int(left.sum())
    if int(own.sum()) < FEWEST:
        raise SettingError(f"{gone} nodes would leave and {int(own.sum())} remain: at least {FEWEST} have to")
    rows = left.nonzero().flatten()
    place = torch.cumsum(left, 0) - 1
    inside = left[graph.edge_index].all(0)
    edges = place[graph.edge_index[:, inside]].to(graph.edge_index.dtype)
    weight = None if graph.edge_weight is None else graph.edge_weight[inside]
    seen, columns = graph.seen, None
    if seen.derived is None:
        x = take_rows(graph.x, rows)
    else:
        x = fastrp(edges, len(rows), graph.x.shape[1], seen.derived["seed"], weight)
    if seen.preprocessing is not None:
        columns = listed_columns(seen.preprocessing, graph.x, x)
    if columns is not None and seen.preprocessing is not None:
        x = from_scipy(to_scipy(x)[:, columns.numpy()]) if x.layout == torch.sparse_csr else x[:, columns]
        seen = replace(seen, preprocessing=seen.preprocessing.keep(columns.tolist()))
    try:
        check_content(Data(x=x, edge_index=edges, num_nodes=len(rows)))
    except GraphError as error:
        raise GraphError(f"{gone} nodes would leave, and what remains cannot be condensed: {error}") from error
    core = None if graph.core_mask is None else graph.core_mask[left]
    cut = replace(graph, x=x, edge_index=edges, num_nodes=len(rows), edge_weight=weight, core_mask=core, seen=seen)
    return cut, columns


def listed_columns(table: Preprocessing, before: Tensor, after: Tensor) -> Tensor | None:
    """Which columns of a table's features stay once nodes have left, bool [f]; None where all do.

    A column of a word goes where fewer nodes have it than the description promises, and more had it before.
    """
    words = torch.tensor([rule.kind == "words" for rule in table.columns for _ in rule.features])
    stays = ~words | (_nonzero(after) >= table.rare) | (_nonzero(before) < table.rare)
    return None if bool(stays.all()) else stays


def _nonzero(x: Tensor) -> Tensor:
    """How many rows have something else than 0 in every column, [f]."""
    if x.layout != torch.sparse_csr:
        return (x != 0).sum(0)
    return torch.bincount(x.col_indices()[x.values() != 0].long(), minlength=x.shape[1])


def _mask(ids: Tensor | Sequence[int], num_nodes: int) -> Tensor:
    """Which nodes are named, bool [N]."""
    try:
        given = torch.as_tensor(ids).cpu().flatten()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise SettingError(f"ids are {ids!r:.80}: give numbers of nodes, or a boolean for each node") from error
    if given.dtype == torch.bool:
        if len(given) != num_nodes:
            raise SettingError(f"ids are {len(given)} booleans, the graph has {num_nodes} nodes: give one for each")
        given = given.nonzero().flatten()
    if len(given) == 0:
        raise SettingError("ids name no node: nothing would be forgotten")
    if given.is_floating_point() or given.is_complex():
        raise SettingError(f"ids are {given.dtype} values: give numbers of nodes, or a boolean for each node")
    wrong = given[(given < 0) | (given >= num_nodes)]
    if len(wrong):
        raise SettingError(f"there is no node {int(wrong[0])}: nodes are numbered from 0 to {num_nodes - 1}")
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[given.long()] = True
    return mask
