"""Accuracy in mini-batches and in bfloat16 less that of the whole graph in float32, from results/batches.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plgc.experiments.differences import Difference, Draw
from plgc.experiments.numbers import Unit
from plgc.graphs.catalog import title
from publish_words import Compared, every_place

POINTS = Unit(1.0, 2, "accuracy, %")
WAYS = {"batches": "the smallest batches possible", "bfloat16": "bfloat16"}
LABELS = ("all labels", "3-shot")


def batch_lines(path: Path) -> str:
    """A line for every way, machine and number of labels; nothing without records."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    lines = []
    for way, words in WAYS.items():
        own = [record for record in records if way in record]
        for machine in dict.fromkeys(record["machine"] for record in own):
            here = [record for record in own if record["machine"] == machine]
            for labels in LABELS:
                lines.append(f"- {words}, {labels} ({machine}): {every_place(_compared(here, way, labels))}.")
    return "\n".join(lines)


def _compared(records: list[dict[str, Any]], way: str, labels: str) -> list[Compared]:
    """The difference of every graph, seed by seed; of a seed that was run twice, the later."""
    found = []
    for graph in dict.fromkeys(record["graph"] for record in records):
        own = [record for record in records if record["graph"] == graph]
        pairs = {Draw(one["seed"], 0): one[way][labels] - one["whole"][labels] for one in own}
        found.append(Compared(title(graph), Difference("whole", pairs), POINTS))
    return found
