"""Condense a graph: alternate stage I (pseudo-labels) and stage II (synthetic features), Figure 2 of the paper.

No label comes this far: the first thing :func:`condense` does is to cut the graph down to features and edges.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc import config
from plgc.artifact import ALL, CondensedGraph
from plgc.batches import Supply, batch_size, parse_memory, read_everyone
from plgc.checkpoint import Checkpoint, checkpoint_in
from plgc.config import Branch, CondenseSettings
from plgc.epoch import train_epoch
from plgc.errors import SettingError
from plgc.graphs.check import check_condensable
from plgc.graphs.load import load_graph, unlabelled
from plgc.inputs import fingerprint as fingerprint_of
from plgc.inputs import prepare, resolve_scaling
from plgc.privacy import check_min_cluster, merge_small_clusters, shared_values
from plgc.progress import Progress, silent
from plgc.pseudo_labels import (
    PseudoLabels,
    StageOne,
    embed,
    read_pseudo_labels,
    sample_rows,
    start_stage_one,
    twin_agreement,
)
from plgc.resume import Curves, Standing
from plgc.synthesize import refine_features, start_features


def condense(
    graph: Data,
    *,
    ratio: float | None = None,
    nodes: int | None = None,
    seed: int = 0,
    preset: str = "default",
    settings: CondenseSettings | None = None,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress | None = None,
    min_cluster: int | None = None,
    max_share: float | None = None,
    fingerprint: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    precision: str | None = None,
) -> CondensedGraph:
    """Condense a graph to a few synthetic nodes with pseudo-labels. Labels and masks are never read.

    Args:
        graph: a graph as :func:`plgc.load_graph` returns it, or any PyG ``Data``. One that is part of a larger graph
            may bring a halo of neighbours and say in ``core_mask`` (bool [N]) which nodes are its own: halo nodes pass
            messages and help to train the encoders, but N, the assignment, Ỹ, X' and counts are those of the core.
        ratio: size as a fraction of the graph's nodes, K = round(ratio · N); or
        nodes: size as a number, K. Give exactly one of the two.
        seed: drives initialisation and augmentation; one seed and one thread count give one file, byte for byte.
        preset: ``default``, the best recipe we know, or ``paper``, the method as published.
        settings: settings of your own, instead of a preset.
        device: where to compute, such as ``cpu`` or ``cuda``.
        threads: CPU threads to use (recorded, since sums differ between counts); by default torch's current number.
        progress: called with a message, the rounds done and the most there can be.
        min_cluster: fewest original nodes a synthetic node may stand for; by default what the settings say, 1. It does
            not hide who was in the graph.
            Smaller clusters are merged, so that the file may hold fewer nodes than requested, and never an empty one.
        max_share: largest share of a published feature value that may come from one original node; by default what the
            settings say, 1: no limit. Values above it are published as 0 (:func:`plgc.privacy.shared_values`).
        fingerprint: whether the file carries a checksum of the graph's features and edges.
        checkpoint: a folder in which to keep how far the run has come; the same call goes on from there after a crash,
            and ends with the same bytes. What was kept of another graph, seed or setting is left alone. A run that ends
            well removes its own.
        memory: bytes to stay within, as a number or a text such as ``4GiB``. Where training on the whole graph would
            need more, and on a CPU with more than 32,768 nodes, stage I trains on batches of its nodes
            (:mod:`plgc.batches`) and says so: in the progress, and in the file as ``chosen["batch_nodes"]``. By default
            the whole graph is always used.
        precision: of the encoders' products, ``float32`` or, on a GPU, ``bfloat16``, which moves half the memory; by
            default what the settings say, ``float32``.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> condensed = plgc.condense(graph, nodes=40, seed=0)
        >>> condensed.nodes_requested, condensed.num_features
        (40, 1000)
    """
    budget = None if memory is None else parse_memory(memory)
    chosen = settings if settings is not None else config.preset(preset)
    chosen = config.adapted(chosen, min_cluster, max_share, precision)
    config.check_precision(chosen, device)
    seen = graph._store.get("seen", ALL)  # a subgraph of training nodes or edges says so
    bare = load_graph(unlabelled(graph))
    check_condensable(bare)
    assert bare.num_nodes is not None
    assert bare.edge_index is not None
    assert bare.x is not None
    core: Tensor | None = bare._store.get("core_mask")
    own = bare.num_nodes if core is None else int(core.sum())
    halo = {} if core is None else {"halo": bare.num_nodes - own}
    count = resolve_count(own, ratio, nodes)
    check_min_cluster(count, own, chosen.min_cluster)
    scaling = resolve_scaling(bare.x, chosen.scaling)
    digest = fingerprint_of(bare) if fingerprint or checkpoint is not None else None
    with cpu_threads(threads) as used:
        inputs = prepare(bare, scaling, device, reorder=True, keep_stored=budget is not None)
        core = core if core is None or inputs.order is None else core[inputs.order.cpu()]
        size = None if budget is None else batch_size(inputs, count, chosen, budget)
        kept = checkpoint_in(
            checkpoint,
            method="plgc",
            graph=digest,
            core=None if core is None else hashlib.sha256(core.numpy().tobytes()).hexdigest(),
            nodes=count,
            seed=seed,
            settings=chosen.to_dict(),
            device=device,
            threads=used,
            **({} if size is None else {"batch": size}),
        )
        outcome = _alternate(Supply(inputs, size), count, chosen, seed, progress or silent, core, kept)
    kept.discard()
    stage, labels, features, curves, agreement = outcome
    return CondensedGraph(
        features=features.cpu(),
        pseudo_labels=labels.vectors.cpu(),
        counts=labels.counts.cpu(),
        blocks=stage.blocks,
        scaling=scaling,
        seed=seed,
        threads=used,
        settings=chosen.to_dict(),
        chosen={
            "branches": [asdict(branch) for branch in stage.branches],
            "agreement": agreement,
            **({} if size is None else {"batch_nodes": size}),
        },
        curves=asdict(curves),
        source={"nodes": own, "edges": bare.edge_index.shape[1], "features": inputs.num_features, **halo},
        nodes_requested=count,
        fingerprint=digest if fingerprint else None,
        seen=dict(seen),
    )


def _alternate(
    supply: Supply,
    count: int,
    settings: CondenseSettings,
    seed: int,
    progress: Progress,
    core: Tensor | None,
    kept: Checkpoint,
) -> tuple[StageOne, PseudoLabels, Tensor, Curves, float | None]:
    """The alternation: rounds of stage I, each followed by stage II where X' carries over or the end is reached."""
    inputs, synthesis, standing = supply.inputs, settings.synthesis, Standing(kept)
    standing.announce(progress, settings.pseudo_labels.max_rounds)
    for at in stage_one_rounds(supply, count, settings, seed, progress, core, standing):
        labels, features = at.labels, standing.features
        if at.last and int(labels.counts.min()) < settings.min_cluster:
            embedding = embed(at.stage, inputs)
            labels, left = merge_small_clusters(labels, embedding, at.stage.blocks, settings.min_cluster)
            features = None if features is None else features[left]
        if at.last or synthesis.start == "nodes":
            if features is None or synthesis.start == "means":
                features = start_features(inputs, labels, synthesis, at.stage.generator)
            shared = shared_values(inputs, labels, settings.max_share) if settings.max_share < 1 else None
            features = features if shared is None else features * shared
            features, losses = refine_features(features, at.stage, inputs, labels, synthesis)
            features = features if shared is None else features * shared
            at.curves.synthesis_loss.extend(losses)
            standing.features = features
        if at.last and features is not None:
            rounds = settings.pseudo_labels.max_rounds
            progress(f"stage II: {len(features)} synthetic nodes", rounds, rounds)
            return at.stage, labels, features, at.curves, at.agreement
    raise AssertionError("the last round returns")


@dataclass(frozen=True)
class Round:
    """Where stage I stands after a round."""

    stage: StageOne
    labels: PseudoLabels
    curves: Curves
    agreement: float | None
    last: bool


def stage_one_rounds(
    supply: Supply,
    count: int,
    settings: CondenseSettings,
    seed: int,
    progress: Progress,
    core: Tensor | None = None,
    standing: Standing | None = None,
) -> Iterator[Round]:
    """Stage I by itself: choose the encoders, then train round by round until the pseudo-labels settle."""
    core = None if core is None else core.to(supply.inputs.device)
    rules, standing = settings.pseudo_labels, standing or Standing()
    if supply.size is not None:
        batches = f"in batches of {supply.size} of {supply.inputs.num_nodes} nodes, since memory is limited"
        progress(f"training {batches}", 0, rules.max_rounds)
    branches, agreement = choose_branches(supply, settings, seed, progress, standing)
    stage, curves = start_stage_one(supply.look, count, branches, rules, seed), standing.curves
    stage.streamed = supply.size is not None
    standing.take_up("rounds", stage)
    for done in range(len(curves.explained) + 1, rules.max_rounds + 1):
        while len(curves.pseudo_label_loss) < done * rules.round_epochs:
            curves.pseudo_label_loss.append(train_epoch(stage, supply.step(stage.generator)))
            standing.keep(stage)
        own = core if supply.size is None else None
        embedding = embed(stage, supply.look)
        if supply.sampled:
            labels = read_pseudo_labels(stage, sample_rows(embedding if own is None else embedding[own]))
        else:
            labels = read_pseudo_labels(stage, embedding, own)
        curves.explained.append(labels.explained)
        message = f"stage I, round {done}: pseudo-labels explain {labels.explained:.1%}"
        progress(message, done, rules.max_rounds)
        last = done == rules.max_rounds or _settled(curves.explained, rules.min_gain)
        if supply.sampled and (last or settings.synthesis.start == "nodes"):
            labels = read_everyone(stage, supply.inputs, core)
        yield Round(stage, labels, curves, agreement, last)
        if last:
            return


def choose_branches(
    supply: Supply, settings: CondenseSettings, seed: int, progress: Progress, standing: Standing
) -> tuple[tuple[Branch, ...], float | None]:
    """The label-free model choice: train twin encoders, and let their agreement pick the rung of the ladder."""
    if len(settings.ladder) == 1:
        return settings.ladder[0].branches, None
    agreement = standing.agreement
    if agreement is None:
        agreement = standing.agreement = _train_twins(supply.probe, settings, seed, progress, standing)
    rung = next(rung for rung in settings.ladder if agreement >= rung.agreement)
    message = f"twin encoders agree {agreement:.1%}: using {len(rung.branches)} encoder(s)"
    progress(message, 0, settings.pseudo_labels.max_rounds)
    return rung.branches, agreement


def _train_twins(
    supply: Supply, settings: CondenseSettings, seed: int, progress: Progress, standing: Standing
) -> float:
    """How far two encoders that differ only in their random start agree on the nodes."""
    # Without ℓ_swap the twins do not depend on K: one graph always gets one choice for one seed.
    rules = settings.pseudo_labels
    rules = replace(rules, swap=0.0) if rules.decorrelation > 0 else rules
    twins = start_stage_one(supply.look, 2, (settings.probe, settings.probe), rules, seed)
    standing.take_up("twins", twins)
    while standing.twin_epochs < settings.probe_epochs:
        train_epoch(twins, supply.step(twins.generator))
        standing.twin_epochs += 1
        standing.keep(twins)
        progress(f"twin encoders, epoch {standing.twin_epochs} of {settings.probe_epochs}", 0, rules.max_rounds)
    return twin_agreement(embed(twins, supply.look), twins.blocks)


def _settled(explained: list[float], min_gain: float) -> bool:
    """The label-free stopping rule: the last round made the pseudo-labels explain hardly more than before."""
    return min_gain > 0 and len(explained) > 1 and explained[-1] - explained[-2] < min_gain


def resolve_count(num_nodes: int, ratio: float | None, nodes: int | None) -> int:
    """K from a ratio or a number, checked against the graph."""
    if (ratio is None) == (nodes is None):
        raise SettingError(f"give either ratio or nodes, not {'both' if ratio is not None else 'neither'}")
    if ratio is not None:
        if not 0.0 < ratio <= 1.0:
            raise SettingError(f"ratio is {ratio}: it must lie above 0 and be at most 1")
        nodes = round(ratio * num_nodes)
        if nodes < 2:
            raise SettingError(
                f"ratio {ratio} of {num_nodes} nodes is {nodes}: at least 2 synthetic nodes are needed, "
                f"so the ratio must be at least {2 / num_nodes:.2g}"
            )
    assert nodes is not None
    if nodes < 2:
        raise SettingError(f"nodes is {nodes}: at least 2 synthetic nodes are needed")
    if nodes > num_nodes:
        raise SettingError(f"nodes is {nodes}, but the graph has only {num_nodes}: ask for fewer")
    return nodes


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[int]:
    """Compute with this many CPU threads, and put things back afterwards."""
    before = torch.get_num_threads()
    if threads is not None:
        if threads < 1:
            raise SettingError(f"threads is {threads}: at least 1 is needed")
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
