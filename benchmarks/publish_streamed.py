"""Accuracy of a graph condensed from disk, uncut and in streamed parts, less that of the uncut graph in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plgc.experiments.differences import Difference, Draw, verdict
from plgc.experiments.numbers import Unit, with_interval

POINTS = Unit(1.0, 2, "accuracy, %")
UNCUT = "uncut"
WAYS = {"accuracy": "as shipped", "learned_accuracy": "learned part alone"}
LABELS = {"all": "all labels", "3": "3-shot"}


def streamed_lines(path: Path) -> str:
    """A line for every way of cutting in results/streamed.jsonl; nothing without records."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return "\n".join(difference_lines(lines))


def difference_lines(records: Sequence[dict[str, Any]]) -> list[str]:
    """For every way of cutting its differences, paired by seed and label draw."""
    uncut = {record["seed"]: record for record in records if record["made"] == UNCUT}
    cut = [record for record in records if record["made"] != UNCUT and record["seed"] in uncut]
    found = []
    for made in sorted({record["made"] for record in cut}, key=int):
        own = [record for record in cut if record["made"] == made]
        words = [
            f"{way}, {labels}, {verdict(less)} {with_interval(less, POINTS)}"
            for key, way in WAYS.items()
            for name, labels in LABELS.items()
            for less in [_less_uncut(own, uncut, name, key)]
        ]
        found.append(f"- {'in one piece' if made == '1' else f'in {made} parts'}: {'; '.join(words)}.")
    return found


def _less_uncut(cut: Sequence[dict[str, Any]], uncut: dict[int, dict[str, Any]], labels: str, way: str) -> Difference:
    pairs = {
        Draw(record["seed"], draw): one - other
        for record in cut
        for draw, (one, other) in enumerate(zip(record[labels][way], uncut[record["seed"]][labels][way], strict=True))
    }
    return Difference(UNCUT, pairs)
