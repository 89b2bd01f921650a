"""Does it work: accuracy of every file, of all of them together, of the whole graph and of the controls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plgc.downstream.combine import resolve_combination
from plgc.evaluation.over_seeds import CONTROLS, MAIN_METRIC, common_seen, evaluate, graph_for, summarize
from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.report.opened import OpenGraph
from plgc.report.text import counted
from plgc.runtime.errors import PLGCError
from plgc.runtime.progress import Progress, nested, silent
from plgc.sources import OpenSource

ALONE = 8  # files that are scored by themselves
NAMES = {"random_encoder": "random encoder", "propagated_features": "propagated features", "whole": "whole graph"}
DIGITS = {"accuracy": 1, "auroc": 3}
UNITS = {"accuracy": "test accuracy, %", "auroc": "AUROC of test edges"}


@dataclass(frozen=True)
class Score:
    """One model over its seeds."""

    name: str
    mean: float
    deviation: float | None
    values: tuple[float, ...]
    role: str = "ours"  # ours, together, whole or control


@dataclass(frozen=True)
class Scores:
    """One task: its rows, what was asked, and what could not be done."""

    task: str
    metric: str
    shots: int | None
    setting: str
    rows: list[Score]
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Score:
        """The row that stands for the files: all together where they were combined, else the best of them."""
        together = [row for row in self.rows if row.role == "together"]
        return together[0] if together else max((r for r in self.rows if r.role == "ours"), key=lambda row: row.mean)

    @property
    def control(self) -> Score:
        """The better of the two controls."""
        return max(self.of("control"), key=lambda row: row.mean)

    def margin(self, other: Score) -> tuple[float, float | None]:
        """How far the files lie above another row, seed by seed: mean and standard deviation of the differences."""
        pairs = [ours - theirs for ours, theirs in zip(self.best.values, other.values, strict=True)]
        return statistics.fmean(pairs), statistics.stdev(pairs) if len(pairs) > 1 else None

    def beats(self, other: Score) -> bool:
        """Whether that is more than chance would give: above two standard errors, above 0 for a single seed."""
        mean, deviation = self.margin(other)
        return mean > 2 * (deviation or 0.0) / len(other.values) ** 0.5

    def of(self, role: str) -> list[Score]:
        """The rows of one role."""
        return [row for row in self.rows if row.role == role]


def score_files(
    sources: Sequence[OpenSource],
    graph: OpenGraph,
    *,
    seed: int = 0,
    seeds: int = 3,
    shots: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Scores]:
    """Score files on the tasks that they and the graph allow: nodes with labels, links where edges were hidden.

    Args:
        sources: the condensed graphs.
        graph: what to score on.
        seed: the first seed.
        seeds: how many.
        shots: labels per class for a second comparison, of files with pseudo-labels.
        device: where to compute.
        progress: called with a message, steps done and steps in all.
    """
    tasks: list[tuple[str, int | None]] = [("node", None)] if graph.labelled else []
    if tasks and shots is not None and all(one.condensed.pseudo_labels is not None for one in sources):
        tasks.append(("node", shots))
    if all(one.condensed.seen.edges == "train" for one in sources):
        tasks.append(("link", None))
    return [
        _score(
            sources, graph, task, few, seed, seeds, device, nested(progress, f"{task} prediction", place, len(tasks))
        )
        for place, (task, few) in enumerate(tasks)
    ]


def _score(
    sources: Sequence[OpenSource],
    graph: OpenGraph,
    task: str,
    shots: int | None,
    seed: int,
    seeds: int,
    device: str,
    progress: Progress | None,
) -> Scores:
    asked: dict[str, Any] = {"task": task, "seeds": seeds, "first_seed": seed, "shots": shots, "device": device}
    metric, rows, notes = MAIN_METRIC[task], [], []
    result: dict[str, Any] = {}
    report, steps = progress or silent, min(ALONE, len(sources)) + 2
    for place, one in enumerate(sources[:ALONE]):
        report(one.name, place, steps)
        result = evaluate([one.condensed], graph.source, **asked)
        name = one.condensed.method if len(sources) == 1 else one.name
        rows.append(_row(name, result[metric]))
    if len(sources) > ALONE:
        notes.append(f"Only the first {ALONE} of {len(sources)} files were scored by themselves.")
    if len(sources) > 1:
        report("all together", steps - 2, steps)
        together, note = _together(sources, graph, metric, asked)
        rows += together
        notes += note
    report("the whole graph", steps - 1, steps)
    rows.append(_whole(sources, graph, metric, asked))
    rows += [_row(NAMES[name], result["controls"][name][metric], "control") for name in CONTROLS]
    labels = "all training labels" if shots is None else f"{counted(shots, 'label')} per class"
    what = f"{labels}; {result['split']}" if task == "node" else "links hidden while condensing"
    return Scores(task, metric, shots, f"{graph.name}: {what}; {counted(seeds, 'seed')}", rows, notes)


def _together(
    sources: Sequence[OpenSource], graph: OpenGraph, metric: str, asked: dict[str, Any]
) -> tuple[list[Score], list[str]]:
    """All files in one backbone, one head each; or why that cannot be done."""
    condensed = [one.condensed for one in sources]
    ours = all(part.pseudo_labels is not None and part.edge_index is None for part in condensed)
    labelled = all(part.labels is not None for part in condensed)
    if not (ours or labelled):
        return [], ["The files hold different things (pseudo-labels, labels, edges): they are not combined."]
    weights = [one.weight for one in sources]
    how: dict[str, Any] = {"combine": resolve_combination(condensed, "heads")} if ours else {}
    how |= {"weights": weights} if ours and len(set(weights)) > 1 else {}
    try:
        result = evaluate(condensed, graph.source, **asked, **how)
    except PLGCError as error:
        return [], [f"The files were not combined: {error}"]
    name = f"all {len(sources)}, by heads" if ours else f"all {len(sources)}, put together"
    return [_row(name, result[metric], "together")], []


def _whole(sources: Sequence[OpenSource], graph: OpenGraph, metric: str, asked: dict[str, Any]) -> Score:
    """A GNN trained on everything that the first file's condensation had to go by."""
    seen = common_seen([sources[0].condensed])
    protocol = Protocol(asked["task"], asked["shots"], inductive=seen.nodes == "train")
    device, found = asked["device"], []
    for seed in range(asked["first_seed"], asked["first_seed"] + asked["seeds"]):
        case = draw_case(graph_for(graph.source, seen, 0, seed), protocol, seed, seen.edge_seed)
        if asked["task"] == "link":
            found.append(score_whole_link(case, seed=seed, device=device))
        else:
            found.append(score(learn("whole", case, seed=seed, device=device), case, "node", seed=seed))
    return _row(NAMES["whole"], summarize(found)[metric], "whole")


def _row(name: str, scores: dict[str, Any], role: str = "ours") -> Score:
    values = tuple(scores["values"])
    return Score(name, scores["mean"], scores["std"] if len(values) > 1 else None, values, role)
