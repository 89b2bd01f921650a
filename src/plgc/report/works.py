"""The section "Does it work?": accuracy beside the whole graph and the controls, and the curves of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.report.charts import dot_chart, spread_text
from plgc.report.html import Html, join, tag
from plgc.report.runs import show_runs
from plgc.report.scores import DIGITS, UNITS, Score, Scores
from plgc.report.text import counted

WHY_CONTROLS = (
    "The head that classifies sees clean labels on the full graph, so a good score alone shows nothing. "
    "The controls, propagated features and a random encoder, have the same head and have learned nothing: "
    "a condensed graph has to beat both."
)


def works(scores: Sequence[Scores], records: Sequence[Mapping[str, Any]], graph: str | None, why: str | None) -> Html:
    """The section's content; ``why`` says why there are no scores."""
    parts: list[Html] = []
    if scores:
        charts = [_chart(one, place) for place, one in enumerate(scores)]
        verdicts = [tag("p", verdict(one), class_="verdict") for one in scores]
        notes = [tag("p", note, class_="note") for one in scores for note in one.notes]
        parts += [*verdicts, tag("div", *charts, class_="charts wide"), tag("p", WHY_CONTROLS, class_="note"), *notes]
    elif why is not None:
        parts.append(tag("p", why))
    if records:
        parts.append(show_runs(records, graph))
    return join(parts)


def verdict(scores: Scores) -> str:
    """One sentence: ours beside the better control and the whole graph, seed by seed."""
    control, whole = scores.control, scores.of("whole")[0]
    few = None if scores.shots is None else f"{counted(scores.shots, 'label')} per class"
    what = "links" if scores.task == "link" else few or "all labels"
    who = f", {scores.best.name}" if len(scores.of("ours")) > 1 else ""
    return (
        f"With {what}{who}: {margin_text(scores, control)} the better control ({control.name}), "
        f"{margin_text(scores, whole)} a GNN trained on the whole graph."
    )


def margin_text(scores: Scores, other: Score) -> str:
    """By how much the files lie above or below another row."""
    mean, deviation = scores.margin(other)
    digits, unit = DIGITS[scores.metric], " points" if scores.metric == "accuracy" else ""
    if round(mean, digits) == 0:
        return "level with"
    return f"{spread_text(abs(mean), deviation, digits)}{unit} {'above' if mean > 0 else 'below'}"


def _chart(scores: Scores, place: int) -> Html:
    rows = [(row.name, row.mean, row.deviation, row.role in ("ours", "together")) for row in scores.rows]
    digits, unit = DIGITS[scores.metric], UNITS[scores.metric]
    return dot_chart(f"scores-{place}", scores.setting, rows, unit=unit, digits=digits)
