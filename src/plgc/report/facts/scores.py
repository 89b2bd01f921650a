"""Scores of every file, of all files combined, of the whole graph and of the controls, on each task."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plgc.downstream.combine import resolve_combination
from plgc.evaluation.over_seeds import CONTROLS, MAIN_METRIC, evaluate, graph_for, summarize
from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.report.facts.files import gives_backbone
from plgc.report.formatting import counted
from plgc.report.inputs import ReportGraph, ReportOptions
from plgc.runtime.errors import PLGCError
from plgc.runtime.progress import Progress, nested, silent
from plgc.sources import OpenSource

MOST_FILES = 8  # scored one by one


@dataclass(frozen=True)
class Score:
    """One model over its seeds; ``role`` is ``file``, ``combined``, ``whole`` or ``control``."""

    name: str
    mean: float
    deviation: float | None
    values: tuple[float, ...]
    role: str = "file"


@dataclass(frozen=True)
class Scores:
    """The scores on one task.

    Attributes:
        task: ``node`` or ``link``.
        metric: ``accuracy`` or ``auroc``.
        shots: labels per class; None for all labels.
        setting: graph, labels, split and number of seeds, in words.
        rows: one score per model.
        notes: what could not be scored, and why.
    """

    task: str
    metric: str
    shots: int | None
    setting: str
    rows: list[Score]
    notes: list[str] = field(default_factory=list)

    @property
    def digits(self) -> int:
        """Digits of the metric after the point."""
        return 1 if self.metric == "accuracy" else 3

    @property
    def few_labels(self) -> str | None:
        """The labels per class in words; None for all labels."""
        return None if self.shots is None else f"{counted(self.shots, 'label')} per class"

    @property
    def best(self) -> Score:
        """The score that the summary gives for the files: all combined where that was done, else the best of them."""
        return next(iter(self.of("combined")), None) or max(self.of("file"), key=lambda row: row.mean)

    @property
    def control(self) -> Score:
        """The best of the controls."""
        return max(self.of("control"), key=lambda row: row.mean)

    def margin(self, other: Score) -> tuple[float, float | None]:
        """The best less another row, seed by seed: mean and standard deviation of the differences."""
        pairs = [ours - theirs for ours, theirs in zip(self.best.values, other.values, strict=True)]
        return statistics.fmean(pairs), statistics.stdev(pairs) if len(pairs) > 1 else None

    def beats(self, other: Score) -> bool:
        """Whether the margin is more than chance: above two standard errors, above 0 for a single seed."""
        mean, deviation = self.margin(other)
        return mean > 2 * (deviation or 0.0) / len(other.values) ** 0.5

    def of(self, role: str) -> list[Score]:
        """The rows of one role."""
        return [row for row in self.rows if row.role == role]


def score_files(
    sources: Sequence[OpenSource], graph: ReportGraph, options: ReportOptions, progress: Progress | None = None
) -> list[Scores]:
    """Score files on the tasks that they and the graph allow: nodes with labels, links where edges were hidden.

    With ``shots``, files with pseudo-labels are also scored with so many labels per class.
    """
    tasks: list[tuple[str, int | None]] = [("node", None)] if graph.labelled else []
    if tasks and options.shots is not None and all(one.condensed.pseudo_labels is not None for one in sources):
        tasks.append(("node", options.shots))
    if all(one.condensed.seen.edges == "train" for one in sources):
        tasks.append(("link", None))
    found = []
    for place, (task, shots) in enumerate(tasks):
        how = {"task": task, "shots": shots, "seeds": options.seeds, "first_seed": options.seed}
        how["device"] = options.device
        inner = nested(progress, f"{task} prediction", place, len(tasks))
        found.append(_score_task(sources, graph, how, inner or silent))
    return found


def _score_task(sources: Sequence[OpenSource], graph: ReportGraph, how: dict[str, Any], report: Progress) -> Scores:
    """The scores on one task; ``how`` has the keywords of :func:`plgc.evaluation.evaluate`."""
    task, shots = how["task"], how["shots"]
    metric, rows, notes = MAIN_METRIC[task], [], []
    result: dict[str, Any] = {}
    steps = min(MOST_FILES, len(sources)) + 2
    for place, one in enumerate(sources[:MOST_FILES]):
        report(one.name, place, steps)
        result = evaluate([one.condensed], graph.source, **how)
        rows.append(_row(one.condensed.method if len(sources) == 1 else one.name, result[metric]))
        notes += _about(one.name if len(sources) > 1 else None, result, metric)
    if len(sources) > MOST_FILES:
        notes.append(f"Only the first {MOST_FILES} of {len(sources)} files were scored by themselves.")
    if len(sources) > 1:
        report("all together", steps - 2, steps)
        combined = _score_combined(sources, graph, metric, how)
        (notes if isinstance(combined, str) else rows).append(combined)
    report("the whole graph", steps - 1, steps)
    rows.append(_score_whole(sources[0], graph, metric, how))
    rows += [_row(name.replace("_", " "), result["controls"][name][metric], "control") for name in CONTROLS]
    labels = "all training labels" if shots is None else f"{counted(shots, 'label')} per class"
    what = f"{labels}; {result['split']}" if task == "node" else "links hidden while condensing"
    return Scores(task, metric, shots, f"{graph.name}: {what}; {counted(how['seeds'], 'seed')}", rows, notes)


def _about(name: str | None, result: dict[str, Any], metric: str) -> list[str]:
    """What a head settled on, and how far the learned part goes by itself; nothing where a file has neither."""
    found, of = [], "" if name is None else f" for {name}"
    if result["learned"] is not None:
        mean = result["learned"][metric]["mean"]
        found.append(f"The learned part alone{of}, without the features beside it, has {mean:.1f}.")
    if result["head"] and result["head"]["words"]:
        found.append(f"What the head found{of}: {result['head']['words']}.")
    return found


def _score_combined(sources: Sequence[OpenSource], graph: ReportGraph, metric: str, how: dict[str, Any]) -> Score | str:
    """All files in one backbone, one head each; or the reason why they cannot be combined."""
    condensed = [one.condensed for one in sources]
    ours = all(map(gives_backbone, condensed))
    if not ours and any(part.labels is None for part in condensed):
        return "The files hold different things (pseudo-labels, labels, edges): they are not combined."
    weights = [one.weight for one in sources]
    if ours:
        how = how | {"combine": resolve_combination(condensed, "heads")}
        how |= {"weights": weights} if len(set(weights)) > 1 else {}
    try:
        result = evaluate(condensed, graph.source, **how)
    except PLGCError as error:
        return f"The files were not combined: {error}"
    return _row(f"all {len(sources)}, {'by heads' if ours else 'put together'}", result[metric], "combined")


def _score_whole(source: OpenSource, graph: ReportGraph, metric: str, how: dict[str, Any]) -> Score:
    """A GNN trained on the part of the whole graph that the condensation was shown."""
    seen = source.condensed.seen
    protocol = Protocol(how["task"], how["shots"], inductive=seen.nodes == "train")
    device, found = how["device"], []
    for seed in range(how["first_seed"], how["first_seed"] + how["seeds"]):
        case = draw_case(graph_for(graph.source, seen, 0, seed), protocol, seed, seen.edge_seed)
        if how["task"] == "link":
            found.append(score_whole_link(case, seed=seed, device=device))
        else:
            found.append(score(learn("whole", case, seed=seed, device=device), case, "node", seed=seed))
    return _row("whole graph", summarize(found)[metric], "whole")


def _row(name: str, scores: dict[str, Any], role: str = "file") -> Score:
    values = tuple(scores["values"])
    return Score(name, scores["mean"], scores["std"] if len(values) > 1 else None, values, role)
