"""Update a condensed graph: the file of a graph becomes the file of the graph that it has grown into, at a small part
of the cost. Stage I starts from what the file knows (:mod:`plgc.method.warm`); everything else is as in ``condense``.
"""

from __future__ import annotations

import os
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.ancestry import Ancestor
from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.graphs.derive import mark_option
from plgc.graphs.preprocessing import check_preprocessing
from plgc.method.condense import Given, choose_settings, condense_bare, resolve_count
from plgc.method.encoder import EDGE_FREE
from plgc.method.release import Release
from plgc.method.settings import CondenseSettings
from plgc.method.warm import Known, warm_settings
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.options import Compute, accepts, check_device
from plgc.runtime.progress import Progress
from plgc.runtime.schema import SchemaError, read
from plgc.sparse.inputs import resolve_scaling

FEWEST = 2  # synthetic nodes
RELEASED = ("clip", "noise", "dtype", "density")  # what a file's settings say of its release alone


@accepts(compute=Compute, release=Release)
def update(
    condensed: CondensedGraph,
    graph: Data | BareGraph,
    *,
    ratio: float | None = None,
    nodes: int | None = None,
    only_new: bool = False,
    seed: int | None = None,
    progress: Progress | bool | None = True,
    checkpoint: str | os.PathLike[str] | None = None,
    compute: Compute,
    release: Release,
) -> CondensedGraph:
    """The condensed graph of a graph that has grown or changed, from that of the graph before. Labels are never read.

    Args:
        condensed: what :func:`plgc.condense` or this function made of the graph before. Its settings hold on.
        graph: the graph as it is now. Columns of features may have been added at the end; old rows count as 0 there.
        ratio: size as a fraction of the graph's nodes; or
        nodes: size as a number, K. By default the ratio of the condensed graph.
        only_new: ``graph`` is the part that has arrived; a halo of older neighbours around it is marked in
            ``core_mask``, as in :func:`plgc.condense`. The condensed graph stands in for all that is not new, and N is
            the number of nodes of both together.
        seed: drives augmentation; by default that of the condensed graph.
        progress: as in :func:`plgc.condense`, and
        checkpoint: likewise.
        compute: ``device``, ``threads``, ``memory`` and ``precision``, given as plain keywords.
        release: likewise ``min_cluster``, ``max_share``, ``clip``, ``noise`` and ``fingerprint``; the first two are by
            default those of the condensed graph.

    Returns:
        The new condensed graph. ``chosen["kept"]`` says how far the pseudo-labels have moved: the mean cosine of an old
        one to the nearest new one, old ones weighted by their nodes. ``ancestry`` names the old file.

    Example:
        >>> import plgc
        >>> from plgc.graphs.views.inductive import induced_subgraph
        >>> graph = plgc.load_graph("demo")
        >>> before = plgc.condense(induced_subgraph(graph, graph.y > 0), nodes=30)
        >>> after = plgc.update(before, graph)
        >>> after.num_nodes > 30, after.ancestry[0].how
        (True, 'update')
    """
    check_device(compute.device)
    settings = settings_of(condensed, compute, release)
    bare = bare_graph(graph)
    check_fits(condensed, bare)
    if only_new and settings.max_share < condensed.settings.get("max_share", 1.0):
        raise SettingError(
            f"max_share is {settings.max_share}, but rows of the old file, which stand in for its nodes, were made "
            f"with {condensed.settings.get('max_share', 1.0)}: give that, or the whole graph"
        )
    if only_new and settings.private and not condensed.settings.get("private", False):
        raise SettingError(
            "private is asked for, but the old file, whose rows stand in for its nodes, is not: give the whole graph"
        )
    count = resolve_size(condensed, bare.num_own + (int(condensed.counts.sum()) if only_new else 0), ratio, nodes)
    count = min(count, bare.num_own + (condensed.num_nodes if only_new else 0))
    seed = condensed.seed if seed is None else seed
    given = Given(compute, release.after(condensed.settings), progress, checkpoint)
    known = Known(condensed, stands_in=only_new)
    made = condense_bare(bare, count, settings, seed, given, known, warm_settings(settings))
    step = Ancestor("update-only-new" if only_new else "update", (condensed.as_parent(),))
    made = replace(made, ancestry=(*condensed.ancestry, step))
    if release.clip is not None or settings.private:
        return made
    made = replace(made, chosen={**made.chosen, "kept": kept(condensed, made)})
    return replace(made, source=joint_counts(condensed, bare), fingerprint=None) if only_new else made


def joint_counts(condensed: CondensedGraph, new: BareGraph) -> dict[str, int]:
    """Sizes of the graph that a condensed graph and a new part are of; edges within the halo are in the old one."""
    counts = {"nodes": int(condensed.counts.sum()) + new.num_own, "features": new.x.shape[1]}
    if "edges" in condensed.source:
        own = torch.ones(new.num_nodes, dtype=torch.bool) if new.core_mask is None else new.core_mask.cpu()
        counts["edges"] = condensed.source["edges"] + int(own[new.edge_index.cpu()].any(0).sum())
    return counts


def settings_of(condensed: CondensedGraph, compute: Compute, release: Release) -> CondenseSettings:
    """The settings that a condensed graph was made with, with what a call says instead.

    Raises:
        ArtifactError: it was made by another method or version, or is noisy and the call does not ask for noise.
    """
    if condensed.method != "plgc" or condensed.pseudo_labels is None:
        raise ArtifactError(
            f"this condensed graph was made by {condensed.method}: only files of plgc's own method can be updated. "
            "Condense the graph again"
        )
    if "clip" in condensed.settings and release.clip is None:
        raise ArtifactError(
            f"this condensed graph was published with clip {condensed.settings['clip']} and noise "
            f"{condensed.settings['noise']}, the result would have neither: give clip and noise again"
        )
    if int(condensed.counts.sum()) < 1:
        raise ArtifactError("this condensed graph stands for no node, by its counts: condense the graph again")
    values = {name: value for name, value in condensed.settings.items() if name not in RELEASED}
    try:
        settings = read(CondenseSettings, values, where="settings")
    except SchemaError as error:
        raise ArtifactError(
            f"this condensed graph was made by plgc {condensed.version} with settings that this version does not have "
            f"({str(error)[:200]}): condense the graph again"
        ) from error
    channels = tuple("plain" if branch.kind == EDGE_FREE else "edges" for branch in settings.branches)
    found = tuple(branch.width for branch in settings.branches), channels
    if found != (condensed.blocks, condensed.channels):
        raise ArtifactError(
            f"this condensed graph has pseudo-labels of widths {condensed.blocks}, its settings say {found[0]}: its "
            "encoders cannot be rebuilt. Condense the graph again"
        )
    _check_cost(settings, condensed.num_features)
    return choose_settings("", settings, compute, release)


def _check_cost(settings: CondenseSettings, width: int) -> None:
    """Raise :class:`ArtifactError` for settings that no one chooses: a stranger's file must not take all of a machine.

    Our own commands never come near these limits.
    """
    rules, steps = settings.pseudo_labels, settings.synthesis.steps
    weights = sum(b.hidden * (width + b.width + b.hidden * (b.layers - 2)) for b in settings.branches)
    sizes = {
        "weights of encoders": (weights, 1 << 28),
        "epochs": (rules.rounds * rules.round_epochs, 100_000),
        "refinements": (rules.refinements, 1000),
        "iterations": (rules.max_iterations, 10_000),
        "steps of stage II": (steps * (rules.rounds if settings.synthesis.every_round else 1), 100_000),
    }
    for name, (found, most) in sizes.items():
        if found > most:
            raise ArtifactError(
                f"the settings of this condensed graph ask for {found:,} {name}, at most {most:,} are run"
            )


def check_fits(condensed: CondensedGraph, graph: BareGraph) -> None:
    """Raise unless a graph has the features of a condensed graph, with further columns at the end or not.

    Raises:
        GraphError: it has fewer columns, another scaling, or its features were made in another way.
        ArtifactError: the condensed graph, or this one, is of a part that was cut out for a test.
    """
    for seen, what in ((condensed.seen, "this condensed graph"), (graph.seen, "this graph")):
        if (seen.nodes, seen.edges) != ("all", "all"):
            hidden = "nodes" if seen.nodes != "all" else "edges"
            raise ArtifactError(
                f"{what} has the training {hidden} alone: the split of a changed graph is another, and what was hidden "
                "would be seen. Condense the graph again"
            )
    old, width = condensed.num_features, graph.x.shape[1]
    if width < old:
        raise GraphError(
            f"the graph has {width} features per node, the condensed graph {old}: columns may be added at the end, "
            "none may be missing. Condense the graph again"
        )
    made, own = condensed.seen.derived, graph.seen.derived
    if made != own:
        way = "are the graph's own" if made is None else f"were derived from the edges ({mark_option(made)})"
        raise GraphError(f"features of the condensed graph {way}, those of this graph were made in another way")
    check_preprocessing(condensed.seen.preprocessing, graph.seen.preprocessing, "this condensed graph")
    scaling = resolve_scaling(graph.x, str(condensed.settings.get("scaling", "auto")))
    if scaling != condensed.scaling:
        raise GraphError(
            f"rows of this graph's features would be scaled by {scaling!r}, those of the condensed graph were by "
            f"{condensed.scaling!r}: values of another kind have come in. Condense the graph again"
        )


def resolve_size(condensed: CondensedGraph, num_nodes: int, ratio: float | None, nodes: int | None) -> int:
    """K: as asked for, or the condensed graph's share of its nodes, of as many nodes as there are now."""
    if ratio is not None or nodes is not None:
        return resolve_count(num_nodes, ratio, nodes)
    before = condensed.source.get("nodes", int(condensed.counts.sum()))
    share = min(1.0, condensed.nodes_requested / max(1, before))
    return min(num_nodes, max(FEWEST, round(share * num_nodes)))


def kept(before: CondensedGraph, after: CondensedGraph) -> float:
    """Mean cosine of every old pseudo-label to the nearest new one, weighted by the old one's nodes."""
    assert before.pseudo_labels is not None
    assert after.pseudo_labels is not None
    nearest: Tensor = (before.pseudo_labels @ after.pseudo_labels.t()).amax(1)
    share = before.counts / before.counts.sum()
    return float((share * nearest).sum())
