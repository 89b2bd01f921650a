"""The section "Does it work?": accuracy beside the whole graph and the controls, and the results of recorded runs."""

from __future__ import annotations

from typing import Any

from plgc.report.charts import Chart, dot_chart
from plgc.report.facts import ReportFacts
from plgc.report.facts.scores import Score, Scores
from plgc.report.formatting import counted, signed
from plgc.report.sections.classes import class_details
from plgc.report.sections.runs import recorded_runs

UNITS = {"accuracy": "test accuracy, %", "auroc": "AUROC of test edges"}


def accuracy_section(facts: ReportFacts) -> dict[str, Any]:
    """Verdicts and charts of the scores, or why there are none, and recorded runs."""
    graph = facts.inputs.graph
    runs, unknown = recorded_runs(facts.inputs.records, None if graph is None else graph.name)
    return {
        "verdicts": [verdict(scores) for scores in facts.scores],
        "charts": [_chart(scores, place) for place, scores in enumerate(facts.scores)],
        "notes": [note for scores in facts.scores for note in scores.notes],
        "unscored": facts.unscored or [text for text in [None if facts.scores else _why_unscored(facts)] if text],
        "details": class_details(facts.scores),
        "runs": runs,
        "unknown_runs": unknown,
    }


def _why_unscored(facts: ReportFacts) -> str | None:
    """Why no accuracy was measured; None where there is no file to measure."""
    graph = facts.inputs.graph
    if not facts.files:
        return None
    if graph is None:
        return "Give the report --graph, a graph with labels, to see how well models from this file do."
    if not graph.labelled:
        return "The graph has no labels: accuracy cannot be measured on it."
    return None if facts.options.seeds else "Accuracy was not measured: the report was asked for 0 seeds."


def verdict(scores: Scores) -> str:
    """One sentence: the files beside the best control and the whole graph, and what that rests on."""
    control, whole = scores.control, scores.of("whole")[0]
    what = "links" if scores.task == "link" else scores.few_labels or "all labels"
    who = f", {scores.best.name}" if len(scores.of("file")) > 1 else ""
    return (
        f"With {what}{who}: {_margin(scores, control, f'the best control ({control.name})')}; "
        f"{_margin(scores, whole, 'a GNN trained on the whole graph')}. This rests on "
        f"{scores.claims[control.name].rests_on}."
    )


def _margin(scores: Scores, other: Score, words: str) -> str:
    """The difference to a row: its size and interval where it can be told, else that it cannot."""
    claim, unit = scores.claims[other.name], " points" if scores.metric == "accuracy" else ""
    size, side = f"{abs(claim.mean):.{scores.digits}f}{unit}", "above" if claim.mean > 0 else "below"
    if claim.interval is None:
        return f"{size} {side} {words}, which one seed cannot tell from chance"
    low, high = (signed(value, scores.digits) for value in claim.interval)
    if claim.verdict != "cannot be told":
        return f"{size} (95 %: {low} to {high}) {side} {words}"
    basis = counted(claim.seeds, "seed")
    basis = basis if claim.nodes is None else f"{counted(claim.nodes, 'node')} and {basis}"
    return f"the difference to {words} cannot be told from {basis} (95 %: {low} to {high})"


def _chart(scores: Scores, place: int) -> Chart:
    rows = [(row.name, row.mean, row.deviation, row.role in ("file", "combined")) for row in scores.rows]
    return dot_chart(f"scores-{place}", scores.setting, rows, unit=UNITS[scores.metric], digits=scores.digits)
