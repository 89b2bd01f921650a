"""Condense several graphs, or the parts of one, into a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.graphs.load import load_graph
from plgc.graphs.views.partition import cut_edges, cut_part, partition_nodes
from plgc.method.settings import CondenseSettings
from plgc.runtime.errors import GraphNotFoundError, SettingError
from plgc.runtime.progress import Progress
from plgc.sources.manifest import MANIFEST, Manifest, read_manifest
from plgc.sources.names import Graph, locate, safe_name, source_names
from plgc.sources.recipe import make_recipe, share_nodes
from plgc.sources.run import Sources, make_sources
from plgc.sources.wanted import Wanted

MIN_CLUSTER = 5  # of several sources; it does not hide who was in them


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
    min_cluster: int | None = MIN_CLUSTER,
    max_share: float | None = None,
    clip: float | None = None,
    noise: float = 0.0,
    fingerprint: bool = False,
    engine: str = "serial",
    workers: int | None = None,
    cpus: int = 1,
    gpus: float = 0.0,
    address: str | None = None,
    retries: int = 2,
    device: str = "cpu",
    memory: int | str | None = None,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Sources:
    """Condense every graph by itself: ``out/NAME.safetensors`` for each, and ``out/manifest.json``.

    Calling again does only what is missing: a file counts as finished where the manifest lists it and it is what would
    be made (seed, size, settings, threads, and the graph's counts). More graphs can be added to a folder at any time;
    those that are there already are not needed for that.

    Args:
        graphs: names, paths of npz files, or ``Data``; one, or several. Labels are never read.
        out: the folder, made where it is missing. On a cluster it must lie on a disk that all nodes share: graphs
            given as ``Data`` are handed over in it, in a private folder that is removed at the end.
        nodes: K of every graph; or
        ratio: K as a fraction of each graph's nodes.
        names: of the sources; by default the graphs' own, made safe for files and unique.
        seed: every source has a seed of its own, 1000 · (place + 1) + seed (:func:`plgc.sources.source_seed`). Its
            place is the one it has in the manifest, else the first that is free: in a new folder, in the list.
        shared_seed: all sources get ``seed`` itself, so that their encoders start from the same weights.
        preset, settings: as for :func:`plgc.condense`.
        min_cluster: fewest original nodes a synthetic node may stand for; None for what the settings say. It does not
            hide who was in the graph.
        max_share: largest share of a published feature value that may come from one node; None for the settings'.
        clip, noise: as for :func:`plgc.method.release.privatise`. It is noise and comes without any ε.
        fingerprint: whether files carry a checksum of their graph, by which others could recognise it.
        engine, workers, cpus, gpus, address, retries: as for :func:`plgc.sources.engine.run_tasks`; with one number of
            ``cpus``, the threads of each source, every engine gives the same bytes.
        device: where each source is computed.
        memory: bytes that each source is to stay within, as for :func:`plgc.condense`.
        precision: of the encoders' products, as there.
        progress: called with a message, the sources done and the sources in all.

    Raises:
        SourcesError: some sources have failed; it names them with their reasons. The others are finished and listed.

    Example:
        >>> import plgc
        >>> from plgc.graphs import citation_graph
        >>> graphs = [citation_graph(nodes=100, classes=3, features=60, seed=seed) for seed in (0, 1)]
        >>> made = plgc.condense_sources(graphs, "both", nodes=6, names=["east", "west"])
        >>> backbone = plgc.reconstruct(plgc.load_sources("both"))
        >>> len(backbone.blocks) >= 2  # an output, or several, of each source
        True
    """
    graphs = [graphs] if isinstance(graphs, str | os.PathLike | Data) else graphs
    if not graphs:
        raise SettingError("no graph given: there is nothing to condense")
    _check_size(nodes, ratio)
    recipe = make_recipe(
        preset, settings, min_cluster, max_share, clip, noise, fingerprint, device, cpus, memory, precision
    )
    known = _known(out)
    found = []
    for name, graph in zip(source_names(graphs, names), graphs, strict=True):
        try:
            found.append(Wanted(name, locate(graph), nodes, ratio))
        except GraphNotFoundError:
            if known.find(name) is None:
                raise
            found.append(Wanted(name, None, nodes, ratio))
    where = {"engine": engine, "workers": workers, "gpus": gpus, "address": address, "retries": retries}
    return make_sources(found, out, recipe, seed=seed, shared_seed=shared_seed, engine=where, progress=progress)


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
    min_cluster: int | None = MIN_CLUSTER,
    max_share: float | None = None,
    clip: float | None = None,
    noise: float = 0.0,
    fingerprint: bool = False,
    engine: str = "serial",
    workers: int | None = None,
    cpus: int = 1,
    gpus: float = 0.0,
    address: str | None = None,
    retries: int = 2,
    device: str = "cpu",
    memory: int | str | None = None,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Sources:
    """Cut a graph into parts and condense every part by itself, into a folder as :func:`condense_sources` makes it.

    Args:
        graph: a name, a path or a ``Data``.
        out: the folder; see :func:`condense_sources`.
        parts: how many parts, at least 2.
        how: ``random``, ``metis`` or ``skewed``, see :func:`plgc.graphs.views.partition.partition_nodes`. ``skewed`` reads
            labels, to cut by them, and is for experiments only.
        halo: parts bring the nodes this many hops around them, which pass messages and are not condensed.
        alpha: concentration of ``skewed``.
        nodes: synthetic nodes in all, shared by size of the parts, at least 2 each; or
        ratio: a fraction of each part's nodes.
        name: of the graph; sources are called NAME-part1, NAME-part2, …
        seed: of the cut; and of the sources, as for :func:`condense_sources`, which has the other arguments too.

    Returns:
        The sources; ``partition`` says how the graph was cut, with its undirected ``edges`` and the ``edges_cut``,
        which are left out with ``clip``.
    """
    _check_size(nodes, ratio)
    recipe = make_recipe(
        preset, settings, min_cluster, max_share, clip, noise, fingerprint, device, cpus, memory, precision
    )
    whole = _whole(graph)
    part = partition_nodes(whole, parts, how, seed=seed, alpha=alpha)
    sizes = torch.bincount(part).tolist()
    shares = [None] * parts if nodes is None else share_nodes(nodes, sizes)
    called = safe_name(whole.name) if name is None else source_names([whole], [name])[0]
    wanted = [
        Wanted(f"{called}-part{number + 1}", partial(cut_part, whole, part, number, halo=halo), share, ratio)
        for number, share in enumerate(shares)
    ]
    assert whole.edge_index is not None
    record: dict[str, Any] = {"graph": called, "parts": parts, "how": how, "halo": halo, "seed": seed}
    record |= {"alpha": alpha} if how == "skewed" else {}
    if clip is None:  # clipped and noisy files leave out how many edges there are, and so does their manifest
        record |= {"edges": whole.edge_index.shape[1] // 2, "edges_cut": cut_edges(whole.edge_index, part)}
    where = {"engine": engine, "workers": workers, "gpus": gpus, "address": address, "retries": retries}
    return make_sources(
        wanted, out, recipe, seed=seed, shared_seed=shared_seed, partition=record, engine=where, progress=progress
    )


def _check_size(nodes: int | None, ratio: float | None) -> None:
    if (ratio is None) == (nodes is None):
        raise SettingError(f"give either ratio or nodes, not {'both' if ratio is not None else 'neither'}")


def _known(out: str | os.PathLike[str]) -> Manifest:
    """The manifest of a folder; an empty one where there is none yet."""
    return read_manifest(out) if os.path.exists(os.path.join(out, MANIFEST)) else Manifest()


def _whole(graph: Graph) -> Data:
    """The graph to be cut, with what it remembers of an earlier cut."""
    whole = load_graph(graph)
    if isinstance(graph, Data) and graph._store.get("seen") is not None:
        whole.seen = graph["seen"]
    return whole
