"""An audit: what a file would tell about its owner's nodes, measured before it is sent.

The file was made from all nodes of the graph, so nobody is left who was not in it. The audit therefore condenses random
halves of the graph with the file's settings and attacks those, or attacks the file itself where nodes that were not in
the graph are given (outsiders). What can be counted in the file itself is counted there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation.membership.candidates import candidates_of
from plgc.evaluation.membership.measures import Measured, over_seeds
from plgc.evaluation.membership.reconstruction import exact_rows
from plgc.evaluation.membership.shadows import draw_members
from plgc.evaluation.membership.suite import SHADOWS, attack
from plgc.evaluation.membership.unique import words_of_one
from plgc.evaluation.runs import graph_for
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.graphs.check import node_count
from plgc.graphs.views.edges import training_edges
from plgc.graphs.views.inductive import induced_subgraph, training_subgraph
from plgc.graphs.views.joined import side_by_side
from plgc.graphs.width import check_width
from plgc.method.condense import condense
from plgc.method.release import Release, privatise
from plgc.method.settings import CondenseSettings
from plgc.method.update import RELEASED
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.options import check_device, cpu_threads
from plgc.runtime.progress import Progress, nested, shown
from plgc.sparse.inputs import fingerprint

FEWEST = 40  # nodes: of half of them, one at 1 % false alarms is hardly to be told
ENOUGH = 0.9  # AUC from which members are found without shadows, which then are not made
AUC_LIMIT, TPR_LIMIT = 0.6, 0.03  # up to here a file withstands the attacks
AUC_EXPOSED, TPR_EXPOSED = 0.75, 0.2  # from here it tells who was in the graph
NEEDED = ("encoders", "pseudo_labels", "synthesis")  # settings without which a file cannot be made again
ADVICE = "--private: publish sums over many nodes, with noise; or keep the file to yourself"
FEWER = "fewer synthetic nodes (--nodes), or keep the file to yourself"  # of a file that is private already


def audit(
    condensed: CondensedGraph,
    graph: Data,
    *,
    outsiders: Data | None = None,
    seeds: int = 3,
    shadows: int = SHADOWS,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress | bool | None = True,
) -> dict[str, Any]:
    """Measure what a file tells about the nodes of the graph that it was made from.

    Args:
        condensed: the file.
        graph: the graph that it was made from.
        outsiders: another graph whose nodes were not in it; then the file itself is attacked. The more they differ from
            the graph's nodes anyway, the better any attack does.
        seeds: how many random halves are condensed and attacked.
        shadows: how many shadow files the attacker condenses for each, unless members are found without.
        device: where to compute.
        threads: CPU threads; None for torch's current number.
        progress: True for a bar, False for none, or a function that is called with a message, what is done and all.

    Returns:
        Plain values. ``auc`` and ``tpr`` (the share of members found at 1 % false alarms) of the strongest attack, each
        with ``mean``, ``interval`` (95 %) and ``values``; ``attacks``: the mean of each; ``words`` and ``rows``: hidden
        words and rows that come back (:mod:`plgc.evaluation.membership`); ``file``: what is counted in the file itself;
        ``grade``: ``exposed``, ``reduced`` or ``withstands``; ``reasons`` for it; ``advice``, what to do.

    Raises:
        ArtifactError: the file is not by this method, or lacks the settings that it was made with.
        GraphError: it was made from another graph.

    Example:
        >>> import plgc
        >>> from plgc.evaluation import audit
        >>> graph = plgc.load_graph("demo")
        >>> found = audit(plgc.condense(graph, nodes=40), graph, seeds=1)
        >>> found["grade"]
        'exposed'
    """
    check_device(device)
    if seeds < 1 or shadows < 0:
        raise SettingError(f"seeds is {seeds} and shadows {shadows}: at least 1 and 0 are needed")
    settings = settings_of(condensed)
    data = shown_part(condensed, graph)
    own = bare_graph(data)
    check_made_from(condensed, own)
    if own.num_nodes < FEWEST:
        raise GraphError(f"the graph has {own.num_nodes} nodes: an audit needs at least {FEWEST}")
    with shown(progress) as report, cpu_threads(threads):
        made = _Maker(condensed, settings, device, report, (1 if outsiders is not None else seeds) * (1 + shadows))
        options: dict[str, Any] = {"condenser": made, "shadows": shadows, "device": device, "enough": ENOUGH}
        if outsiders is not None:
            joined = side_by_side(own, bare_graph(outsiders))
            members = torch.arange(node_count(joined)) < own.num_nodes
            report("attacking the file", 0, 1)
            found = [attack(condensed, joined, members, **options)]
        else:
            found = [_attack_half(data, made, seed, options) for seed in range(seeds)]
        told = in_file(condensed, own, device)
    result: dict[str, Any] = {
        "graph": own.name,
        "attacked": "halves" if outsiders is None else "file",
        "members": own.num_nodes if outsiders is not None else own.num_nodes // 2,
        "others": outsiders.num_nodes if outsiders is not None else own.num_nodes - own.num_nodes // 2,
        "seeds": len(found),
        **summary(found),
        "file": told,
    }
    grade, reasons = graded(result)
    return result | {
        "grade": grade,
        "reasons": reasons,
        "advice": advice(grade, told, bool(condensed.settings.get("private"))),
    }


def settings_of(condensed: CondensedGraph) -> CondenseSettings:
    """The settings that a file was made with, to make others in the same way."""
    if condensed.method != "plgc":
        raise ArtifactError(
            f"this condensed graph was made by {condensed.method}: an audit makes files of halves of the graph in the "
            "same way, and can do so for plgc alone"
        )
    missing = [name for name in NEEDED if name not in condensed.settings]
    if missing:
        raise ArtifactError(
            f"the file does not say with which {', '.join(missing)} it was made, so files of halves cannot be made in "
            "the same way: condense the graph again"
        )
    try:
        return CondenseSettings.from_dict({k: v for k, v in condensed.settings.items() if k not in RELEASED})
    except (AttributeError, KeyError, TypeError) as error:  # a forged file
        raise ArtifactError(f"the file's settings are damaged ({error}): condense the graph again") from error


def shown_part(condensed: CondensedGraph, graph: Data) -> Data:
    """What the condensation saw of the graph: all, its training nodes or its training edges."""
    seen = condensed.seen
    if seen.nodes == "train":
        return training_subgraph(graph_for(graph, seen, 0, 0))
    return training_edges(graph, seen.edge_seed or 0) if seen.edges == "train" else graph


def check_made_from(condensed: CondensedGraph, graph: BareGraph) -> None:
    """Raise unless a file can have been made from this graph: by width, counts and, where it has one, fingerprint."""
    check_width("the file", condensed.source.get("features", condensed.num_features), graph.name, graph.x.shape[1])
    if condensed.source.get("halo"):
        raise ArtifactError(
            f"the file was made from a part of a graph with a halo of {condensed.source['halo']} nodes: audit a "
            "file of the whole graph instead"
        )
    exact = "edges" in condensed.source  # a noisy file has no edge count, and a noisy count of nodes
    for name in ("nodes", "edges") if exact else ():
        if name in condensed.source and condensed.source[name] != graph.counts[name]:
            raise GraphError(
                f"the file was made from a graph with {condensed.source[name]} {name}, {graph.name} has "
                f"{graph.counts[name]}: give the graph that was condensed"
            )
    if condensed.fingerprint is not None and condensed.fingerprint != fingerprint(graph):
        raise GraphError(
            f"the file was made from another graph than {graph.name}, by its fingerprint: give the graph that was "
            "condensed"
        )


class _Maker:
    """Condenses parts of the graph as the file was made, and reports how many are done."""

    def __init__(
        self, condensed: CondensedGraph, settings: CondenseSettings, device: str, report: Progress, total: int
    ) -> None:
        self.condensed, self.settings, self.device = condensed, settings, device
        self.report, self.done, self.total = report, 0, total

    def __call__(self, part: Data, seed: int) -> CondensedGraph:
        nodes = min(self.condensed.nodes_requested, node_count(part) // self.settings.min_cluster)
        progress = nested(self.report, "condensing a half", min(self.done, self.total - 1), self.total)
        self.done += 1
        made = condense(
            part,
            nodes=nodes,
            seed=seed,
            settings=self.settings,
            device=self.device,
            progress=progress,
            release=Release(fingerprint=False),
        )
        clip, noise = (self.condensed.settings.get(name) for name in ("clip", "noise"))
        return made if clip is None else privatise(made, clip=clip, noise=noise or 0.0, seed=seed)


def _attack_half(graph: Data, made: _Maker, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Condense a random half and attack it."""
    nodes = node_count(graph)
    members = draw_members(nodes, nodes // 2, torch.Generator().manual_seed(seed))
    made.done = seed * (1 + options["shadows"])  # shadows may have been left out
    file = made(induced_subgraph(graph, members), seed)
    return attack(file, graph, members, seed=seed, **options)


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the attacked files, of the strongest attack of each with intervals."""
    best = {
        measure: [max(one["attacks"].values(), key=lambda result: result[measure]) for one in found]
        for measure in ("auc", "tpr")
    }
    names = list(dict.fromkeys(name for one in found for name in one["attacks"]))
    attacks = {
        name: {
            measure: statistics.fmean(one["attacks"][name][measure] for one in found if name in one["attacks"])
            for measure in ("auc", "tpr")
        }
        for name in names
    }
    return {
        **{
            measure: over_seeds([Measured(one[measure], one[f"{measure}_error"]) for one in results])
            for measure, results in best.items()
        },
        "strongest": max(attacks, key=lambda name: attacks[name]["auc"]),
        "attacks": attacks,
        **{
            kind: {name: statistics.fmean(one[kind][name] for one in found) for name in found[0][kind]}
            for kind in ("words", "rows")
        },
    }


def in_file(condensed: CondensedGraph, graph: BareGraph, device: str) -> dict[str, Any]:
    """What is counted in the file itself, beside the graph that it was made from."""
    candidates = candidates_of(condensed, graph, device=device)
    features = candidates.words(condensed.features.to(device))
    readable = candidates.view is None
    return {
        "exact_rows": int(exact_rows(features, candidates.own.x).sum()),
        "words": int((features != 0).any(0).sum()) if readable else 0,
        "words_of_one": words_of_one(features, candidates.own.x) if readable else 0,
        "counts_of_one": int((condensed.counts == 1).sum()),
        "smallest_count": int(condensed.counts.min()),
        "fingerprint": condensed.fingerprint is not None,
        "edge_count": "edges" in condensed.source,
    }


def graded(result: Mapping[str, Any]) -> tuple[str, list[str]]:
    """``exposed``, ``reduced`` or ``withstands``, and why."""
    auc, tpr, told = result["auc"], result["tpr"], result["file"]
    reasons = []
    if auc["mean"] > AUC_LIMIT or tpr["mean"] > TPR_LIMIT:
        reasons.append(
            f"members are told from others with an AUC of {auc['mean']:.3f}, and {100 * tpr['mean']:.1f} % of them are "
            "found at 1 % false alarms"
        )
    if told["exact_rows"]:
        reasons.append(f"{told['exact_rows']} nodes have their row in the file as it is")
    if told["words_of_one"]:
        reasons.append(f"{told['words_of_one']} words that one node alone has are in the file")
    if auc["mean"] >= AUC_EXPOSED or tpr["mean"] >= TPR_EXPOSED or told["exact_rows"]:
        return "exposed", reasons
    if reasons:
        return "reduced", reasons
    if auc["interval"][1] > AUC_LIMIT or tpr["interval"][1] > TPR_LIMIT:
        reasons.append("the intervals reach above the limits: more seeds would tell")
    return "withstands", reasons


def advice(grade: str, told: Mapping[str, Any], private: bool = False) -> list[str]:
    """The options that the owner can condense with instead."""
    found = [] if grade == "withstands" else [FEWER if private else ADVICE]
    if told["counts_of_one"]:
        found.append(f"--min-cluster 5: {told['counts_of_one']} synthetic nodes stand for one node each")
    if told["fingerprint"]:
        found.append("--no-fingerprint: whoever has the same graph recognises it")
    return found
