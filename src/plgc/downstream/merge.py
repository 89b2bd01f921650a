"""Merge condensed graphs into one, without any graph: all rows in one output space, and as few of them as asked for.

:mod:`plgc.downstream.one_space` brings the pseudo-labels of all sources into one space, as wide as that of one source.
Fewer rows than all are made by :mod:`plgc.method.regroup`. Here is what a merged file may claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from plgc._version import __version__
from plgc.artifact.ancestry import Ancestor, Parent
from plgc.artifact.condensed import CondensedGraph
from plgc.artifact.rounding import DTYPES, rounded
from plgc.downstream.combine import check_compatible, check_rebuildable
from plgc.downstream.one_space import one_space, space_bytes
from plgc.method.disk.budget import PROGRAM
from plgc.method.regroup import regroup, spread_start
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.options import UNITS, check_device, parse_memory
from plgc.runtime.progress import Progress, shown
from plgc.runtime.schema import LARGEST_WHOLE

MIB = UNITS["MiB"]


def merge(
    condensed: Sequence[CondensedGraph],
    *,
    nodes: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    memory: int | str | None = None,
    progress: Progress | bool | None = True,
) -> CondensedGraph:
    """Make one condensed graph from several. No graph is needed, and no label is read.

    The result is a file like any other: its output is as wide as that of the source with most rows, and its counts add
    up to those of all sources. It has the channels that every source has, and claims no more about its release than
    the weakest source: the smallest ``min_cluster``, the largest ``max_share``, private or noisy only if all are. The
    bound on one node's share of a private file is one on that file's numbers, and not carried over. Its ancestry lists
    every source with these settings.

    Args:
        condensed: what :func:`plgc.load_sources` opened. They may differ in size, seed, encoders and package version,
            but not in their features.
        nodes: K; by default, and at most, the rows of all sources. Groups that are too small for ``min_cluster`` are
            merged, so that fewer may be left.
        seed: of the networks, and of the start of the groups.
        device: where to compute.
        memory: bytes to stay within, as a number or a text such as ``4GiB``; None for no limit. The angles between all
            rows are in memory at once.
        progress: True for a bar on a terminal or in a notebook, False for none, or a function that is called with a
            message, the sources done and the sources in all.

    Raises:
        GraphError: features, their scaling or the table they come from differ.
        ArtifactError: a source was made by another method, sources have no channel in common, or counts make no sense.
        SettingError: ``nodes`` does not fit, a source is given twice, or ``memory`` does not suffice.

    Example:
        >>> import plgc
        >>> from plgc.graphs import citation_graph
        >>> graphs = [citation_graph(nodes=100, classes=3, features=60, seed=seed) for seed in (0, 1)]
        >>> made = plgc.condense_sources(graphs, "both", nodes=6, names=["east", "west"], private=False)
        >>> one = plgc.merge(plgc.load_sources("both"), nodes=8)
        >>> one.num_nodes <= 8, int(one.counts.sum()), len(one.ancestry[-1].parents)
        (True, 200, 2)
    """
    check_device(device)
    sources = list(condensed)
    parents = check_mergeable(sources, nodes)
    like, claims = _like(sources), weakest_release([source.settings for source in sources])
    check_memory(sources, like, memory)
    with shown(progress) as report:
        vectors = one_space(sources, like, seed, device, report)
    features, counts = (torch.cat([getattr(source, name) for source in sources]) for name in ("features", "counts"))
    if nodes is not None and nodes < len(counts):
        start = spread_start(vectors, counts, nodes, seed)
        groups = regroup(vectors, counts, start, like.blocks, minimum=claims["min_cluster"])
        features, vectors, counts = groups.weights.t() @ features, groups.vectors, groups.counts
    kept = {name: value for name, value in like.settings.items() if name not in ("clip", "noise", "density")}
    merged = CondensedGraph(
        features=features,
        pseudo_labels=vectors,
        counts=counts,
        blocks=like.blocks,
        channels=like.channels,
        scaling=like.scaling,
        seed=seed,
        threads=torch.get_num_threads(),
        settings={**kept, **claims},
        nodes_requested=len(counts) if nodes is None else nodes,
        chosen={name: value for name, value in like.chosen.items() if name == "branches"},
        source=_sizes(sources),
        version=__version__,
        seen=like.seen,
        ancestry=_ancestry(sources, parents),
    )
    return rounded(merged, claims["dtype"])


def check_mergeable(sources: Sequence[CondensedGraph], nodes: int | None) -> list[Parent]:
    """Raise unless these can be merged into ``nodes`` rows; the sources as the result's ancestry has them."""
    for source in sources:
        if source.method != "plgc":
            raise ArtifactError(f"a condensed graph was made by {source.method}: only those of plgc can be merged")
        check_rebuildable(source)
    check_compatible(sources)
    first, *others = (replace(source.seen, preprocessing=None) for source in sources)
    for other in others:
        if other != first:
            raise GraphError(
                "the condensed graphs were shown different parts of their graphs (--edges train, --inductive), or have "
                "features derived in different ways: merge those that are alike"
            )
    parents = [source.as_parent() for source in sources]
    (checksum, times), *_ = Counter(parent.checksum for parent in parents).most_common(1)
    if times > 1:
        raise SettingError(
            f"a condensed graph (sha256 {checksum[:12]}…) is given {times} times: its nodes would count {times} times. "
            "Give every source once"
        )
    total = sum(sum(source.counts.tolist()) for source in sources)
    if not 0 < total <= LARGEST_WHOLE or max(_sizes(sources).values()) > LARGEST_WHOLE:
        raise ArtifactError(
            f"the rows of the condensed graphs stand for {total} nodes, and their graphs are said to have "
            f"{_sizes(sources)['nodes']}: that cannot be. Condense the graphs again"
        )
    if nodes is None and len(sources) == 1:
        raise SettingError("one condensed graph is given, and no number of nodes: there is nothing to merge")
    if nodes is not None and nodes < 2:
        raise SettingError(f"nodes is {nodes}: a condensed graph has at least 2")
    return parents


def check_memory(sources: Sequence[CondensedGraph], like: CondensedGraph, memory: int | str | None) -> None:
    """Raise :class:`SettingError` where merging takes more memory than is allowed."""
    if memory is None:
        return
    limit, rows = parse_memory(memory), sum(source.num_nodes for source in sources)
    needed = -(-(PROGRAM + space_bytes(sources, like)) // MIB)
    if needed * MIB > limit:
        raise SettingError(
            f"memory is {limit / MIB:,.0f} MiB: merging {rows:,} rows takes {needed:,} MiB: allow that much (--memory "
            f"{needed}MiB), or merge some of the files into fewer rows first"
        )


def weakest_release(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What may be said of a file made from files with these settings: what holds for every one of them."""
    found: dict[str, Any] = {
        "min_cluster": min(own.get("min_cluster", 1) for own in settings),
        "max_share": max(own.get("max_share", 1.0) for own in settings),
        "private": all(own.get("private", False) for own in settings),
        "dtype": max((own.get("dtype", DTYPES[-1]) for own in settings), key=DTYPES.index),
    }
    presets = {own.get("preset") for own in settings}
    if len(presets) > 1:
        found["preset"] = "merged"  # X' of some is trained away from the data, and of others not
    if all("noise" in own for own in settings):
        found |= {"clip": max(own["clip"] for own in settings), "noise": min(own["noise"] for own in settings)}
    return found


def _like(sources: Sequence[CondensedGraph]) -> CondensedGraph:
    """The source whose output the result has: of those with the channels that all have, the one with most rows."""
    common = set.intersection(*(set(source.channels) for source in sources))
    if not common:
        raise ArtifactError(
            "some of the condensed graphs have only the channel with edges, others only the one without: they have no "
            "output in common, so merge those that are alike"
        )
    alike = [source for source in sources if set(source.channels) == common]
    return max(alike, key=lambda source: source.num_nodes)


def _sizes(sources: Sequence[CondensedGraph]) -> dict[str, int]:
    """Counts of the original graphs together; edges where every source says how many it had."""
    found = {"nodes": sum(source.source.get("nodes", int(source.counts.sum())) for source in sources)}
    for name in ("edges", "halo"):
        own = [source.source.get(name, 0 if name == "halo" else None) for source in sources]
        if all(value is not None for value in own) and any(own):
            found[name] = sum(value for value in own if value is not None)
    return {**found, "features": sources[0].num_features}


def _ancestry(sources: Sequence[CondensedGraph], parents: Sequence[Parent]) -> tuple[Ancestor, ...]:
    """The steps that led to the sources, each once, and then this one."""
    before = dict.fromkeys(step for source in sources for step in source.ancestry)
    return (*before, Ancestor("merge", tuple(parents)))
