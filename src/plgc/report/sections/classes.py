"""Class by class: precision, recall and F1 as a table, what is taken for what, and whether probabilities hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.report.charts import Chart, NumberTable, Series, cell_chart, line_chart
from plgc.report.facts.scores import Scores
from plgc.report.formatting import NONE, counted, spread

DRAWN = 12  # classes in the picture; the smallest are put together
OTHERS = "others"


def class_details(scores: Sequence[Scores]) -> list[dict[str, Any]]:
    """For every node task, a sentence, the table of its classes and two charts."""
    found = []
    for place, one in enumerate(scores):
        if one.answers is None or one.macro_f1 is None:
            continue
        charts = [_confusion(one.answers, f"confusion-{place}"), _reliability(one.answers, f"reliability-{place}")]
        found.append(
            {
                "heading": f"Class by class, with {one.few_labels or 'all labels'}",
                "text": _sentence(one, one.answers, one.macro_f1),
                "table": _table(one.answers["classes"]),
                "charts": charts,
            }
        )
    return found


def _sentence(scores: Scores, answers: Mapping[str, Any], f1: tuple[float, float | None]) -> str:
    return (
        f"{scores.best.name} on {counted(answers['nodes'], 'test node')}, over "
        f"{counted(len(scores.best.values), 'seed')}: macro-F1 {spread(*f1)}, expected calibration error "
        f"{answers['calibration']['ece']:.1f}\u202f% (0 where a predicted probability of 80\u202f% is right in "
        "80\u202f% of the cases)."
    )


def _table(classes: Sequence[Mapping[str, Any]]) -> NumberTable:
    names = ("precision", "recall", "f1")
    rows = [
        [one["class"], one["nodes"], *(NONE if one[name] is None else f"{one[name]:.1f}" for name in names)]
        for one in classes
    ]
    return NumberTable("Scores by class, %", ["class", "nodes", "precision", "recall", "F1"], rows)


def _confusion(answers: Mapping[str, Any], id: str) -> Chart:
    """Of every class, which share is taken for which."""
    names = [str(one["class"]) for one in answers["classes"]]
    names, counts = largest(names, answers["confusion"])
    return cell_chart(id, "What is taken for what", names, counts, rows="true class", columns="predicted class")


def largest(names: Sequence[str], counts: Sequence[Sequence[int]]) -> tuple[list[str], list[list[int]]]:
    """The classes with the most answers, in their order; with too many to draw, the others are added up."""
    if len(names) <= DRAWN:
        return list(names), [list(row) for row in counts]
    by_size = sorted(range(len(names)), key=lambda place: (-sum(counts[place]), place))
    kept = sorted(by_size[: DRAWN - 1])
    groups = [[place] for place in kept] + [[place for place in range(len(names)) if place not in kept]]
    added = [[sum(counts[row][column] for row in own for column in other) for other in groups] for own in groups]
    return [*(names[place] for place in kept), OTHERS], added


def _reliability(answers: Mapping[str, Any], id: str) -> Chart:
    """How often answers are right, by the probability that they are given."""
    bins = answers["calibration"]["bins"]
    sure, right = [one["confidence"] for one in bins], [one["accuracy"] for one in bins]
    ends = [min(sure), 100.0]
    series = [Series("answers", sure, right), Series("perfectly calibrated", ends, ends)]
    chart = line_chart(
        id,
        "How often a probability is right",
        series,
        x_label="predicted probability, %",
        y_label="right, %",
        markers=True,
        start=0.0,
    )
    assert chart is not None
    return chart
