"""Condense a graph: the public function around the alternation."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.artifact.rounding import rounded
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.method.alternate import alternate
from plgc.method.disk.graph import GraphOnDisk
from plgc.method.release import Release, check_min_cluster, check_words, privatise, without_details
from plgc.method.resume import Run
from plgc.method.settings import CondenseSettings
from plgc.method.settings import preset as preset_named
from plgc.method.training import ScratchPlace, scratch_folder, training_graph
from plgc.method.warm import Known, stand_in, warm_settings
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import SettingError
from plgc.runtime.options import Compute, accepts, check_device, check_precision, cpu_threads
from plgc.runtime.progress import Progress, shown
from plgc.sparse.inputs import fingerprint, resolve_scaling


@accepts(compute=Compute, release=Release)
def condense(
    graph: Data | BareGraph,
    *,
    ratio: float | None = None,
    nodes: int | None = None,
    seed: int = 0,
    preset: str = "default",
    settings: CondenseSettings | None = None,
    progress: Progress | bool | None = True,
    checkpoint: str | os.PathLike[str] | None = None,
    compute: Compute,
    release: Release,
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
        progress: True for a bar on a terminal or in a notebook, False for none, or a function that is called with a
            message, the epochs of stage I that are done, and all of them.
        checkpoint: a folder for checkpoints; the same call resumes from there after a crash, and ends with the same
            bytes. Checkpoints of another graph, seed or setting are left alone. A finished run removes its own.
        compute: its fields are given as plain keywords: ``device``, ``threads``, ``memory`` and ``precision``
            (:class:`plgc.runtime.options.Compute`). With ``memory``, a graph that does not fit, and on a CPU one with
            more than 32,768 nodes, is trained on in mini-batches; the file records ``chosen["batch_nodes"]``.
        release: likewise ``min_cluster``, ``max_share``, ``private``, ``clip``, ``noise``, ``fingerprint``, ``dtype``
            and ``density`` (:class:`plgc.method.release.Release`). What is returned is rounded as its file is.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> condensed = plgc.condense(graph, nodes=40, seed=0)
        >>> condensed.nodes_requested, condensed.num_features
        (40, 1000)
    """
    check_device(compute.device)
    chosen = choose_settings(preset, settings, compute, release)
    bare = bare_graph(graph)
    count = resolve_count(bare.num_own, ratio, nodes)
    return condense_bare(bare, count, chosen, seed, Given(compute, release, progress, checkpoint))


@dataclass(frozen=True)
class Given:
    """What a call of :func:`condense`, or of a function like it, was given beside the graph, the size and the seed."""

    compute: Compute
    release: Release
    progress: Progress | bool | None = None
    checkpoint: str | os.PathLike[str] | None = None


def condense_bare(
    bare: BareGraph,
    count: int,
    settings: CondenseSettings,
    seed: int,
    given: Given,
    known: Known | None = None,
) -> CondensedGraph:
    """Condense a graph without labels to K nodes; with ``known``, from there on (:mod:`plgc.method.warm`).

    The file records the settings as they are given here, also where ``known`` shortens stage I.
    """
    compute, release = given.compute, given.release
    gone = int(known.condensed.counts.sum()) if known is not None and known.stands_in else 0
    check_min_cluster(count, bare.num_own + gone, settings.min_cluster)
    check_words(bare.seen.preprocessing, settings.min_cluster)
    scaling = resolve_scaling(bare.x, settings.scaling)
    used = settings if known is None else warm_settings(settings)
    digest = fingerprint(bare) if release.fingerprint or given.checkpoint is not None else None
    with shown(given.progress) as report, cpu_threads(compute.threads) as threads, ExitStack() as stack:
        stands_in, checkpoint = known is not None and known.stands_in, given.checkpoint
        place = ScratchPlace(scratch_folder(checkpoint), stack)
        training = training_graph(bare, scaling, count, used, compute, place, stands_in=stands_in)
        batch, core = training.batch_nodes, training.core
        file = checkpoint_in(
            checkpoint,
            method="plgc",
            graph=digest,
            core=None if core is None else hashlib.sha256(core.cpu().numpy().tobytes()).hexdigest(),
            nodes=count,
            seed=seed,
            settings=settings.to_dict(),
            device=compute.device,
            threads=threads,
            **({} if batch is None else {"batch": batch}),
            **({} if known is None else {"known": [known.condensed.as_parent().checksum, known.stands_in]}),
            **({"from": "disk"} if isinstance(training, GraphOnDisk) else {}),
        )
        run = Run(used.pseudo_labels, report, file)
        if batch is not None:
            run.report(f"training in batches of {batch} of {bare.num_nodes} nodes, since memory is limited")
        if isinstance(training, GraphOnDisk):
            training = training.reporting(run.report)
        elif known is not None and known.stands_in:
            training = stand_in(training, known.condensed)
        made = alternate(training, count, used, seed, run, known=known)
        assert made.features is not None
    file.discard()
    condensed = CondensedGraph(
        features=made.features.cpu(),
        pseudo_labels=made.labels.vectors.cpu(),
        counts=made.labels.counts.cpu(),
        blocks=made.stage.blocks,
        channels=made.stage.channels,
        scaling=scaling,
        seed=seed,
        threads=threads,
        settings={**settings.to_dict(), **release.stored},
        chosen={
            "branches": [asdict(branch) for branch in made.stage.branches],
            **({} if batch is None else {"batch_nodes": batch}),
        },
        curves=asdict(run.curves),
        source=bare.counts,
        nodes_requested=count,
        fingerprint=digest if release.fingerprint else None,
        seen=bare.seen,
        largest_share=made.share,
    )
    if settings.private:
        condensed = without_details(condensed)
    if release.clip is not None:
        condensed = privatise(condensed, clip=release.clip, noise=release.noise)
    return rounded(condensed, **release.stored)


def choose_settings(
    preset: str, settings: CondenseSettings | None, compute: Compute, release: Release
) -> CondenseSettings:
    """The settings of a call: its own or a preset's, with what its options say instead."""
    chosen = preset_named(preset) if settings is None else settings
    if compute.precision is not None:
        chosen = replace(chosen, pseudo_labels=replace(chosen.pseudo_labels, precision=compute.precision))
    check_precision(chosen.pseudo_labels.precision, compute.device)
    given = {name: getattr(release, name) for name in ("min_cluster", "max_share", "private")}
    chosen = replace(chosen, **{name: value for name, value in given.items() if value is not None})
    if release.min_cluster not in (None, chosen.min_cluster):
        raise SettingError(
            f"min_cluster is {release.min_cluster}, but clusters of a private release have at least "
            f"{chosen.min_cluster} nodes: leave min_cluster out, or turn private off (--no-private)"
        )
    return chosen


def resolve_count(num_nodes: int, ratio: float | None, nodes: int | None) -> int:
    """K from a ratio or a number, checked against the graph."""
    check_size(ratio, nodes)
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


def check_size(ratio: float | None, nodes: int | None) -> None:
    """Raise unless exactly one of the two is given."""
    if (ratio is None) == (nodes is None):
        raise SettingError(f"give either ratio or nodes, not {'both' if ratio is not None else 'neither'}")
