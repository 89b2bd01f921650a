"""Score condensed files and other models on a graph, seed by seed: the same labels, nodes and head for all of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import Backbone
from plgc.downstream.embedder import Embedder
from plgc.downstream.from_disk import Work, from_disk, stays_on_disk
from plgc.downstream.models import check_from_disk
from plgc.downstream.tasks.answers import Answers, joined
from plgc.evaluation.claims import Claim, claim, node_differences
from plgc.evaluation.kept import KeptEmbedding, ways_of
from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.graphs.attributes import Seen, seen_of
from plgc.graphs.bare import bare_graph
from plgc.graphs.labels import NOTHING_HELD_OUT, cross_validation
from plgc.graphs.load import load_graph, num_classes
from plgc.graphs.preprocessing import check_preprocessing
from plgc.graphs.views.inductive import training_digest
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.graphs.width import check_width, feature_width
from plgc.method.disk.layers import check_kind
from plgc.rivals.controls import CONTROL_WIDTH
from plgc.runtime.errors import GraphError, LabelError, SettingError
from plgc.runtime.progress import Progress, silent
from plgc.sparse.inputs import fingerprint
from plgc.sparse.prepared import PreparedGraphs
from plgc.sparse.stored_inputs import StoredGraphs

CONTROLS = ("random_encoder", "propagated_features", "raw_features", "plain_parts")
MAIN_METRIC = {"node": "accuracy", "link": "auroc", "cluster": "nmi"}


@dataclass(frozen=True)
class RunOptions:
    """How models are made and scored.

    Attributes:
        task: ``node``, ``link`` or ``cluster``.
        seeds: how many repetitions, with seeds ``first_seed``, ``first_seed`` + 1, …
        first_seed: the first of them.
        shots: labels per class; None uses all training labels.
        labels: labels in all.
        on: ``test``, or ``val`` to choose settings.
        kind: the backbone's kind.
        split: which of several fixed splits.
        device: where to compute.
        combine: how several sources share a backbone, see :func:`plgc.reconstruct`.
        weights: one for every source.
        memory: bytes to stay within, as a number or a text such as ``4GiB``: for nodes, a graph on disk stays there.
        scratch: a folder for what does not fit into memory; by default the package's cache.
        cross_validated: for nodes of a graph without a split of its own: a seed is one repetition of cross-validation
            over every label (:func:`plgc.graphs.labels.cross_validation`), and embeds once.
    """

    task: str = "node"
    seeds: int = 1
    first_seed: int = 0
    shots: int | None = None
    labels: int | None = None
    on: str = "test"
    kind: str = "gcn"
    split: int = 0
    device: str = "cpu"
    combine: str | None = None
    weights: Sequence[float] | None = None
    memory: int | str | None = None
    scratch: str | os.PathLike[str] | None = None
    cross_validated: bool = False


@dataclass
class Runs:
    """Several models on the same seeds and nodes.

    Attributes:
        protocol: what they were given.
        graphs: with the split of each seed.
        metrics: by model, the metrics of every seed; the files are ``plgc``, and ``learned`` and ``parts``
            where these are other ways to score them.
        answers: by model, the predictions of every seed; empty but for nodes.
        settled: what the files' heads for nodes settled, by seed.
    """

    protocol: Protocol
    graphs: list[Data] = field(default_factory=list)
    metrics: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    settled: list[dict[str, float]] = field(default_factory=list)

    def add(self, name: str, scores: dict[str, float], answers: Sequence[Answers]) -> None:
        """Add one seed of a model: its metrics and its answers, of all folds."""
        if answers:
            self.answers.setdefault(name, []).append(joined(answers))
        several = len(answers) > 1
        self.metrics.setdefault(name, []).append(self.answers[name][-1].metrics() if several else scores)

    def values(self, name: str) -> list[float]:
        """The main metric of a model, seed by seed."""
        return [found[MAIN_METRIC[self.protocol.task]] for found in self.metrics[name]]

    def claim(self, ours: str, other: str, theirs: Runs | None = None) -> Claim:
        """What can be said of the difference between two models; the other may be of other runs on the same seeds."""
        theirs = theirs or self
        own, others = self.answers.get(ours), theirs.answers.get(other)
        nodes = node_differences(own, others) if own and others else None
        return claim(self.values(ours), theirs.values(other), nodes)

    @property
    def split(self) -> str:
        """Where the splits of all seeds come from."""
        origins = list(dict.fromkeys(graph.split_origin for graph in self.graphs))
        seeds = [str(graph.split_seed) for graph in self.graphs]
        if len(origins) == 1:
            return origins[0]
        first = origins[0].replace(f"seed {seeds[0]} ", f"seeds {seeds[0]} to {seeds[-1]} ")
        return first if first != origins[0] else "; ".join(origins)


def run_seeds(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    options: RunOptions,
    references: Sequence[str] = CONTROLS,
    progress: Progress | None = None,
    rebuilt: dict[Any, Embedder] | None = None,
) -> Runs:
    """Rebuild, fine-tune and score once per seed, files and references alike.

    Args:
        condensed: one condensed graph, or one per source.
        source: the graph, anything :func:`plgc.load_graph` takes.
        options: how.
        references: models beside the files, by name: controls, or ``whole``.
        progress: called with a message, the seeds done and the seeds in all.
        rebuilt: backbones of earlier calls with the same files on other labels, which are taken instead of rebuilt;
            those of this call are added.
    """
    with contextlib.ExitStack() as stack:
        return _run_seeds(condensed, source, options, references, progress, rebuilt, stack)


def _run_seeds(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    options: RunOptions,
    references: Sequence[str],
    progress: Progress | None,
    rebuilt: dict[Any, Embedder] | None,
    stack: contextlib.ExitStack,
) -> Runs:
    _check(condensed, options)
    stored: StoredGraphs | None = None
    seen, task = common_seen(condensed), options.task
    protocol = Protocol(task, options.shots, options.labels, inductive=seen.nodes == "train")
    found, main = Runs(protocol), MAIN_METRIC[task]
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        graph = graph_for(source, seen, options.split, seed)
        check_preprocessing(seen.preprocessing, seen_of(graph).preprocessing, "this condensed graph")
        check_width("this condensed graph", condensed[0].num_features, "the graph", feature_width(graph))
        on_disk = _stays_on_disk(graph, condensed, seen, options)
        cases = _cases(graph, protocol, seed, seen, options.cross_validated)
        if task == "link" and not found.graphs:
            _check_edges(condensed, cases[0], seen)
        how: dict[str, Any] = {"seed": seed, "device": options.device, "prepared": PreparedGraphs()}
        chosen = {"kind": options.kind, "combine": options.combine, "weights": options.weights}
        ours = _rebuild(condensed, cases[0], {} if rebuilt is None else rebuilt, **chosen, **how)
        if on_disk:
            stored = stored or _stored(stack, ours, cases, options, progress or silent)
            how["prepared"] = stored
        models = _files_models(ours, task)
        settled: dict[str, float] = {}
        for name in [*models, *references]:
            if name not in models and name != "whole":
                models[name] = KeptEmbedding(learn(name, cases[0], kind=options.kind, **how))
            answers: list[Answers] = []
            scores: dict[str, float] = {}
            for case in cases:
                if name == "whole" and task == "link":
                    scores = score_whole_link(case, seed=seed, on=options.on, device=options.device)
                    continue
                model = learn(name, case, **how) if name == "whole" else models[name]
                told = settled if name == "plgc" else None
                given = {"seed": seed, "on": options.on, "prepared": how["prepared"]}
                scores = score(model, case, task, **given, settled=told, answers=answers)
            found.add(name, scores, answers)
        found.graphs.append(graph)
        found.settled.append(settled)
        if progress:
            progress(f"seed {seed}: {main} {found.values('plgc')[-1]:.4g}", len(found.graphs), options.seeds)
    return found


def _stays_on_disk(graph: Data, condensed: Sequence[CondensedGraph], seen: Seen, options: RunOptions) -> bool:
    """Whether the graph is left on disk; what cannot be scored there is refused."""
    if options.memory is None:
        return False
    if options.task != "node":
        raise SettingError(f"memory is for nodes, not for the task {options.task}: leave it out")
    width = sum(part.num_features for part in condensed)
    if not stays_on_disk(graph, Work({"x": 3 * width, "learned": 2 * CONTROL_WIDTH}, 1), options.memory):
        return False
    if seen.nodes == "train":
        raise SettingError("a file of training nodes alone (--inductive) is not scored from disk: leave memory out")
    if any(part.pseudo_labels is None for part in condensed):
        raise SettingError(
            "a file with labels trains a network of its own, which is not done from disk: leave memory out"
        )
    return True


def _stored(
    stack: contextlib.ExitStack, ours: Embedder, cases: Sequence[Case], options: RunOptions, progress: Progress
) -> StoredGraphs:
    """A place for the work on a graph that stays on disk, until the runs end."""
    assert options.memory is not None
    assert isinstance(ours, Backbone)
    check_from_disk(ours)
    check_kind(options.kind)
    graph, labels = cases[0].graph, max(0 if case.clean is None else len(case.clean) for case in cases)
    widths = {**ours.parts, "learned": max(CONTROL_WIDTH, ours.parts.get("learned", 0))}
    work = Work(widths, num_classes(graph), labels, models=2)
    folder = None if options.scratch is None else Path(options.scratch)
    return stack.enter_context(from_disk(graph, work, options.memory, folder, progress))


def _rebuild(condensed: Sequence[CondensedGraph], case: Case, kept: dict[Any, Embedder], **how: Any) -> Embedder:
    """The model of the files; a backbone is kept, since it does not depend on labels."""
    if any(part.pseudo_labels is None for part in condensed):
        return learn("plgc", case, condensed, **how)
    weights = None if how["weights"] is None else tuple(how["weights"])
    key = (*condensed, how["kind"], how["combine"], weights, how["seed"], how["device"])
    if key not in kept:
        kept[key] = learn("plgc", case, condensed, **how)
    return kept[key]


def _check(condensed: Sequence[CondensedGraph], options: RunOptions) -> None:
    if options.seeds < 1:
        raise SettingError(f"seeds is {options.seeds}: at least 1 is needed")
    if not condensed:
        raise SettingError("no condensed graph given: there is nothing to evaluate")
    labelled = [part.method for part in condensed if part.labels is not None]
    if labelled and (options.shots is not None or options.labels is not None):
        raise SettingError(
            f"shots and labels choose what a head learns from, and {labelled[0]} has none: its labels were chosen when "
            "it condensed. Leave both out"
        )


def _cases(graph: Data, protocol: Protocol, seed: int, seen: Seen, cross_validated: bool) -> list[Case]:
    """The cases of one seed: one, or one for every fold."""
    if not cross_validated:
        return [draw_case(graph, protocol, seed, seen.edge_seed)]
    folds = cross_validation(graph, protocol.shots, protocol.labels, seed)
    if not folds:
        raise LabelError(NOTHING_HELD_OUT)
    cases = [draw_case(fold, replace(protocol, shots=None, labels=None), seed) for fold in folds]
    return [replace(case, visible=graph) for case in cases]  # one graph, so that it is embedded once


def _files_models(ours: Embedder, task: str) -> dict[str, Embedder]:
    """The model of the files in every way that nodes are scored: ``plgc``, ``learned`` and ``parts``."""
    ways = ways_of(ours, task) if task == "node" else {"": ours}
    return {prefix.rstrip("_") or "plgc": model for prefix, model in ways.items()}


def common_seen(condensed: Sequence[CondensedGraph]) -> Seen:
    """What the condensations were shown of the graph; it has to be the same for all of them."""
    keys = ("nodes", "edges", "edge_seed", "training_nodes")
    found = [{key: value for key, value in part.seen.to_dict().items() if key in keys} for part in condensed]
    if any(other != found[0] for other in found):
        texts = sorted({", ".join(f"{key} {value}" for key, value in one.items()) for one in found})
        raise SettingError(
            f"the condensed graphs have seen different things ({'; '.join(texts)}): evaluate them one by one"
        )
    return condensed[0].seen


def graph_for(source: str | os.PathLike[str] | Data, seen: Seen, split: int, seed: int) -> Data:
    """The graph with its masks. A file that has seen training nodes or labels keeps its split.

    Under another split, nodes that the file has seen could be test nodes.

    Raises:
        GraphError: the training nodes are not those the file was made from.
    """
    if seen.training_nodes is None:
        return load_graph(source, split=split, seed=seed, notice=False)
    assert seen.split is not None
    assert seen.split_seed is not None
    if split not in (0, seen.split):
        raise SettingError(
            f"split {split} was asked for, the file was condensed from the training nodes of split {seen.split}: "
            "leave --split out"
        )
    chosen = isinstance(source, Data) and "split_index" in source  # its masks are one split already
    graph = load_graph(source, split=0 if chosen else seen.split, seed=seen.split_seed, notice=False)
    if training_digest(graph) != seen.training_nodes:
        raise GraphError(
            "this file was condensed from the training nodes of another graph or split: nodes that it has seen could "
            "be among the test nodes. Use the graph that was condensed"
        )
    return graph


def _check_edges(condensed: Sequence[CondensedGraph], case: Case, seen: Seen) -> None:
    """Raise where a condensation has seen the edges that are to be predicted."""
    if seen.nodes == "train":
        return  # links are predicted among nodes that the file has never seen
    if seen.edges != "train":
        raise SettingError(
            "this file was condensed from all edges, those to be predicted among them: condense the graph again with "
            "--edges train, which hides validation and test edges"
        )
    expected = fingerprint(bare_graph(case.seen))
    for part in condensed:
        if part.fingerprint not in (None, expected):
            raise GraphError(
                f"this file was condensed from training edges that are not this graph's (edge seed "
                f"{seen.edge_seed}): use the graph that was condensed"
            )
