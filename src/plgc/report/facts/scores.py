"""Scores of every file, of all files combined, of the whole graph and of the controls, on each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plgc.downstream.combine import resolve_combination
from plgc.downstream.embedder import Embedder
from plgc.downstream.tasks.answers import describe_answers
from plgc.evaluation.claims import Claim
from plgc.evaluation.over_seeds import describe_settled, summarize
from plgc.evaluation.runs import CONTROLS, MAIN_METRIC, RunOptions, Runs, run_seeds
from plgc.graphs.labels import NOTHING_HELD_OUT, cross_validation, has_own_split, labels_text, with_every_label
from plgc.report.facts.files import gives_backbone
from plgc.report.formatting import counted
from plgc.report.inputs import ReportGraph, ReportOptions
from plgc.runtime.errors import PLGCError
from plgc.runtime.progress import Progress, nested, silent
from plgc.sources import OpenSource

MOST_FILES = 8  # scored one by one
REFERENCES = ("whole", *CONTROLS)


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
        claims: by row, what can be said of the difference of the best to it.
        macro_f1: of the best, its mean and standard deviation; None for links.
        answers: of the best, classes, confusion and calibration (:func:`describe_answers`); None for links.
        notes: what could not be scored, and why.
    """

    task: str
    metric: str
    shots: int | None
    setting: str
    rows: list[Score]
    claims: Mapping[str, Claim] = field(default_factory=dict)
    macro_f1: tuple[float, float | None] | None = None
    answers: Mapping[str, Any] | None = None
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
        return best_of(self.rows)

    @property
    def control(self) -> Score:
        """The best of the controls."""
        return max(self.of("control"), key=lambda row: row.mean)

    def of(self, role: str) -> list[Score]:
        """The rows of one role."""
        return [row for row in self.rows if row.role == role]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "task": self.task,
            "shots": self.shots,
            "setting": self.setting,
            "metric": self.metric,
            "scores": {row.name: {"role": row.role, "mean": row.mean, "values": list(row.values)} for row in self.rows},
            "best": self.best.name,
            "claims": {name: claim.to_dict() for name, claim in self.claims.items()},
            "macro_f1": None if self.macro_f1 is None else self.macro_f1[0],
            "answers": self.answers,
            "notes": self.notes,
        }


def best_of(rows: Sequence[Score]) -> Score:
    """The combined files where there are some, else the best file."""
    combined = [row for row in rows if row.role == "combined"]
    return combined[0] if combined else max((row for row in rows if row.role == "file"), key=lambda row: row.mean)


def score_files(
    sources: Sequence[OpenSource], graph: ReportGraph, options: ReportOptions, progress: Progress | None = None
) -> tuple[list[Scores], list[str]]:
    """Score files on the tasks that they and the graph allow: nodes with labels, links where edges were hidden.

    With ``shots``, files with pseudo-labels are also scored with so many labels per class. On a graph without a split
    of its own, nodes are cross-validated over every label, unless a file was made from a split.

    Returns:
        The scores by task, and why a task has none.
    """
    tasks: list[tuple[str, int | None]] = [("node", None)] if graph.labelled else []
    if tasks and options.shots is not None and all(one.condensed.pseudo_labels is not None for one in sources):
        tasks.append(("node", options.shots))
    if all(one.condensed.seen.edges == "train" for one in sources):
        tasks.append(("link", None))
    folds = not has_own_split(graph.data) and all(one.condensed.seen.training_nodes is None for one in sources)
    scores, unscored, rebuilt = [], [], dict[Any, Embedder]()
    for place, (task, shots) in enumerate(tasks):
        crossed = folds and task == "node"
        if crossed and not cross_validation(graph.data, shots, None, options.seed):
            unscored.append(f"{NOTHING_HELD_OUT[0].upper()}{NOTHING_HELD_OUT[1:]}.")
            continue
        how = RunOptions(
            task,
            shots=shots,
            seeds=options.seeds,
            first_seed=options.seed,
            device=options.device,
            cross_validated=crossed,
        )
        inner = nested(progress, f"{task} prediction", place, len(tasks))
        scores.append(_score_task(sources, graph, how, inner or silent, rebuilt))
    return scores, unscored


def _score_task(
    sources: Sequence[OpenSource],
    graph: ReportGraph,
    how: RunOptions,
    report: Progress,
    rebuilt: dict[Any, Embedder],
) -> Scores:
    """The scores on one task. Controls and the whole graph are scored once for all files that have seen the same."""
    metric = MAIN_METRIC[how.task]
    rows: list[Score] = []
    notes: list[str] = []
    runs: dict[str, tuple[Runs, Runs]] = {}  # by row: those of the files, and those of its references
    references: dict[str, Runs] = {}
    chosen = sources[:MOST_FILES]
    for place, one in enumerate(chosen):
        report(one.name, place, len(chosen) + 1)
        name = one.condensed.method if len(sources) == 1 else one.name
        seen = str(one.condensed.seen.to_dict())
        inner = nested(report, one.name, place, len(chosen) + 1)
        others = () if seen in references else REFERENCES
        found = run_seeds([one.condensed], graph.source, how, others, inner, rebuilt)
        runs[name] = found, references.setdefault(seen, found)
        rows.append(_row(name, found, "plgc", "file"))
        notes += _about(one.name if len(sources) > 1 else None, found, metric)
    if len(sources) > MOST_FILES:
        notes.append(f"Only the first {MOST_FILES} of {len(sources)} files were scored by themselves.")
    if len(sources) > 1:
        report("all together", len(chosen), len(chosen) + 1)
        combined = _score_combined(sources, graph, how, rebuilt)
        if isinstance(combined, str):
            notes.append(combined)
        else:
            name = f"all {len(sources)}, {'by heads' if gives_heads(sources) else 'put together'}"
            runs[name] = combined, next(iter(references.values()))
            rows.append(_row(name, combined, "plgc", "combined"))
    ours, beside = runs[best_of(rows).name]
    words = {name: "whole graph" if name == "whole" else name.replace("_", " ") for name in REFERENCES}
    rows += [_row(words[name], beside, name, "whole" if name == "whole" else "control") for name in REFERENCES]
    f1 = summarize(ours.metrics["plgc"]).get("macro_f1")
    return Scores(
        how.task,
        metric,
        how.shots,
        _setting(graph, ours, how),
        rows,
        {words[name]: ours.claim("plgc", name, beside) for name in REFERENCES},
        None if f1 is None else (f1["mean"], f1["std"] if how.seeds > 1 else None),
        describe_answers(ours.answers["plgc"], graph.data) if how.task == "node" else None,
        notes,
    )


def _setting(graph: ReportGraph, runs: Runs, how: RunOptions) -> str:
    """Graph, labels, split, nodes and seeds in words."""
    seeds = counted(how.seeds, "seed")
    if how.task == "link":
        return f"{graph.name}: links hidden while condensing; {seeds}"
    every = with_every_label(graph.data)
    labels = "all training labels" if how.shots is None else f"{counted(how.shots, 'label')} per class"
    split = runs.split
    if how.cross_validated and how.shots is None:
        labels, split = labels_text(every, every["train_mask"]), "cross-validated"
    elif how.cross_validated:
        split = f"drawn from {labels_text(every, every['train_mask'])}; the others are tested"
    nodes = len({node for one in runs.answers["plgc"] for node in one.nodes.tolist()})
    return f"{graph.name}: {labels}; {split}; {counted(nodes, 'test node')}, {seeds}"


def _about(name: str | None, runs: Runs, metric: str) -> list[str]:
    """What a head settled on, and how far the learned part goes by itself; nothing where a file has neither."""
    found, of = [], "" if name is None else f" for {name}"
    if "learned" in runs.metrics:
        mean = summarize(runs.metrics["learned"])[metric]["mean"]
        found.append(f"The learned part alone{of}, without the features beside it, has {mean:.1f}.")
    head = describe_settled(runs.settled)
    if head and head["words"]:
        found.append(f"What the head found{of}: {head['words']}.")
    return found


def gives_heads(sources: Sequence[OpenSource]) -> bool:
    """Whether a backbone with one head for each is rebuilt from the files."""
    return all(gives_backbone(one.condensed) for one in sources)


def _score_combined(
    sources: Sequence[OpenSource], graph: ReportGraph, how: RunOptions, rebuilt: dict[Any, Embedder]
) -> Runs | str:
    """All files in one backbone, one head each; or the reason why they cannot be combined."""
    condensed, ours = [one.condensed for one in sources], gives_heads(sources)
    if not ours and any(part.labels is None for part in condensed):
        return "The files hold different things (pseudo-labels, labels, edges): they are not combined."
    weights = [one.weight for one in sources]
    if ours:
        how = replace(how, combine=resolve_combination(condensed, "heads"))
        how = replace(how, weights=weights) if len(set(weights)) > 1 else how
    try:
        return run_seeds(condensed, graph.source, how, (), rebuilt=rebuilt)
    except PLGCError as error:
        return f"The files were not combined: {error}"


def _row(name: str, runs: Runs, model: str, role: str) -> Score:
    values = runs.values(model)
    scores = summarize(runs.metrics[model])[MAIN_METRIC[runs.protocol.task]]
    return Score(name, scores["mean"], scores["std"] if len(values) > 1 else None, tuple(values), role)
