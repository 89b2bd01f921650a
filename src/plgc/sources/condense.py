"""Condense several graphs, or the parts of one, into a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.graphs.attributes import seen_of
from plgc.graphs.load import load_graph, without_labels
from plgc.graphs.views.partition import cut_edges, cut_part, partition_nodes
from plgc.graphs.views.parts_on_disk import can_be_cut_on_disk
from plgc.method.condense import check_size
from plgc.method.release import Release
from plgc.method.settings import CondenseSettings
from plgc.runtime.errors import GraphNotFoundError, SettingError
from plgc.runtime.options import Compute, accepts
from plgc.runtime.progress import Progress, shown
from plgc.sources.cutting import cut_on_disk
from plgc.sources.engine import Placement
from plgc.sources.folder import Sources, make_sources
from plgc.sources.manifest import check_same_cut, start_manifest
from plgc.sources.names import Graph, locate, safe_name, source_names
from plgc.sources.options import source_options
from plgc.sources.origin import StoredPart
from plgc.sources.task import SourceRequest

PARTS_RELEASE = Release(min_cluster=5, fingerprint=False)  # the parts are one owner's: it hides nobody
SOURCES_RELEASE = replace(PARTS_RELEASE, private=True)
LEAST_NODES = 2  # of a source: what condensation needs


@accepts(release=SOURCES_RELEASE, compute=Compute, placement=Placement)
def condense_sources(
    graphs: Graph | Sequence[Graph],
    out: str | os.PathLike[str],
    *,
    nodes: int | None = None,
    ratio: float | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
    shared_seed: bool = False,
    preset: str = "default",
    settings: CondenseSettings | None = None,
    release: Release,
    compute: Compute,
    placement: Placement,
    progress: Progress | bool | None = True,
) -> Sources:
    """Condense every graph by itself: ``out/NAME.safetensors`` for each, and ``out/manifest.json``.

    Calling again does only what is missing: a file counts as finished where the manifest lists it and it was made from
    the same graph, by its content, with the same seed, size, settings, threads and memory. What it was made from is
    known from the user's cache (:mod:`plgc.sources.origin`); where that is lost, it is made again. More graphs can be
    added to a folder at any time; the graphs of the sources that are there already are not needed for that.

    Args:
        graphs: names, paths of npz files, or ``Data``; one, or several. Labels are never read.
        out: the folder, made where it is missing. On a cluster it must lie on a disk that all nodes share: graphs
            given as ``Data`` are passed to tasks in it, in a private folder that is removed at the end.
        nodes: K of every graph; or
        ratio: K as a fraction of each graph's nodes.
        names: of the sources; by default the graphs' own, made safe for files and unique.
        seed: every source has a seed of its own, 1000 · (place + 1) + seed (:func:`plgc.sources.source_seed`). Its
            place is the one it has in the manifest, else the first that is free: in a new folder, in the list.
        shared_seed: all sources get ``seed`` itself, so that their encoders start from the same weights.
        preset, settings: as for :func:`plgc.condense`.
        min_cluster, max_share, private, clip, noise, fingerprint: what may leave the owners, see
            :class:`plgc.method.release.Release`; here ``private`` is True, ``min_cluster`` 5 and ``fingerprint`` False
            by default.
        device, memory, precision: what each source is computed with, see :class:`plgc.runtime.options.Compute`.
        engine, workers, address, cpus, gpus, retries: where sources are condensed, see
            :class:`plgc.sources.engine.Placement`; with the same ``cpus``, the threads of each source, every engine
            gives the same bytes.
        progress: True for a bar on a terminal or in a notebook, False for none, or a function that is called with a
            message, the sources done and the sources in all.

    Raises:
        SourcesError: some sources have failed; it names them with their reasons. The others are finished and listed.

    Example:
        >>> import plgc
        >>> from plgc.graphs import citation_graph
        >>> graphs = [citation_graph(nodes=300, classes=3, features=60, seed=seed) for seed in (0, 1)]
        >>> made = plgc.condense_sources(graphs, "both", nodes=6, names=["east", "west"])
        >>> backbone = plgc.reconstruct(plgc.load_sources("both"))
        >>> len(backbone.blocks) >= 2  # an output, or several, of each source
        True
    """
    graphs = [graphs] if isinstance(graphs, str | os.PathLike | Data) else graphs
    if not graphs:
        raise SettingError("no graph given: there is nothing to condense")
    check_size(ratio, nodes)
    options = source_options(preset, settings, release, compute, placement)
    listed = start_manifest(out)
    requests = []
    for name, graph in zip(source_names(graphs, names), graphs, strict=True):
        try:
            found = locate(graph)
        except GraphNotFoundError:
            if listed.find(name) is None:
                raise
            found = None
        requests.append(SourceRequest(name, found, nodes, ratio))
    with shown(progress) as report:
        return make_sources(requests, out, options, placement, seed=seed, shared_seed=shared_seed, progress=report)


@accepts(release=PARTS_RELEASE, compute=Compute, placement=Placement)
def condense_parts(
    graph: Graph,
    out: str | os.PathLike[str],
    parts: int,
    how: str = "random",
    *,
    halo: int = 0,
    alpha: float = 1.0,
    nodes: int | None = None,
    ratio: float | None = None,
    name: str | None = None,
    seed: int = 0,
    shared_seed: bool = False,
    preset: str = "default",
    settings: CondenseSettings | None = None,
    release: Release,
    compute: Compute,
    placement: Placement,
    progress: Progress | bool | None = True,
) -> Sources:
    """Cut a graph into parts and condense every part by itself, into a folder as :func:`condense_sources` makes it.

    Args:
        graph: a name, a path or a ``Data``.
        out: the folder; see :func:`condense_sources`.
        parts: how many parts, at least 2.
        how: ``random``, ``metis``, ``stream`` or ``skewed``, see
            :func:`plgc.graphs.views.partition.partition_nodes`. ``skewed`` reads labels, to cut by them, and is for
            experiments only.
        halo: parts bring the nodes this many hops around them, which pass messages and are not condensed.
        alpha: concentration of ``skewed``.
        nodes: synthetic nodes in all, shared by size of the parts, at least 2 each; or
        ratio: a fraction of each part's nodes.
        name: of the graph; sources are called NAME-part1, NAME-part2, …
        seed: of the cut; and of the sources, as for :func:`condense_sources`, which has the other arguments too. Here
            ``private`` is False by default: the parts have one owner.

    Returns:
        The sources; ``partition`` says how the graph was cut, with its undirected ``edges`` and the ``edges_cut``,
        which are left out with ``clip`` and ``private``.
    """
    check_size(ratio, nodes)
    options = source_options(preset, settings, release, compute, placement)
    whole = load_graph(graph, notice=False)
    if isinstance(graph, Data):
        whole.seen = seen_of(graph)  # it may itself be a part
    if how != "skewed":
        whole = without_labels(whole)
    name = safe_name(whole.name) if name is None else source_names([whole], [name])[0]
    record: dict[str, Any] = {"graph": name, "parts": parts, "how": how, "halo": halo, "seed": seed}
    record |= {"alpha": alpha} if how == "skewed" else {}
    counted = release.clip is None and not options.settings.private  # other files do not say how many edges there are
    seeds: dict[str, Any] = {"seed": seed, "shared_seed": shared_seed}
    with shown(progress) as report:
        if how != "skewed" and can_be_cut_on_disk(whole):
            check_same_cut(out, record)
            if nodes is not None:
                share_nodes(nodes, [1] * parts)  # which refuses too few before the work
            cut = cut_on_disk(whole, Path(out), parts, how, halo=halo, seed=seed, progress=report)
            record |= cut.counts if counted else {}
            requests = _requests(name, cut.parts(), cut.sizes, nodes, ratio)
            return make_sources(requests, out, options, placement, **seeds, partition=record, cut=cut, progress=report)
        part = partition_nodes(whole, parts, how, seed=seed, alpha=alpha)
        assert whole.edge_index is not None
        if counted:
            record |= {"edges": whole.edge_index.shape[1] // 2, "edges_cut": cut_edges(whole.edge_index, part)}
        cuts = [partial(cut_part, whole, part, number, halo=halo) for number in range(parts)]
        requests = _requests(name, cuts, torch.bincount(part).tolist(), nodes, ratio)
        return make_sources(requests, out, options, placement, **seeds, partition=record, progress=report)


def _requests(
    name: str,
    cuts: Sequence[StoredPart | Callable[[], Data]],
    sizes: Sequence[int],
    nodes: int | None,
    ratio: float | None,
) -> list[SourceRequest]:
    """A request for every part, with its share of the synthetic nodes."""
    shares = [None] * len(sizes) if nodes is None else share_nodes(nodes, sizes)
    return [
        SourceRequest(f"{name}-part{number}", cut, share, ratio)
        for number, (cut, share) in enumerate(zip(cuts, shares, strict=True), start=1)
    ]


def share_nodes(total: int, sizes: Sequence[int], least: int = LEAST_NODES) -> list[int]:
    """Divide ``total`` synthetic nodes by size: largest remainders, at least ``least`` each."""
    if total < least * len(sizes):
        raise SettingError(
            f"nodes is {total} for {len(sizes)} parts: each needs at least {least}, so ask for {least * len(sizes)} "
            "or more, or for fewer parts"
        )
    exact = [total * size / sum(sizes) for size in sizes]
    shares = [max(least, math.floor(share)) for share in exact]
    while sum(shares) < total:
        shares[max(range(len(sizes)), key=lambda i: exact[i] - shares[i])] += 1
    while sum(shares) > total:
        above = [i for i in range(len(sizes)) if shares[i] > least]
        shares[min(above, key=lambda i: exact[i] - shares[i])] -= 1
    return shares
