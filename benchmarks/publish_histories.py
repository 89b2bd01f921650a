"""What the records of experiments with histories say: how close files are, what they cost, and what they still tell."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from plgc.experiments.differences import Difference, verdict
from plgc.experiments.levels import PRIVATE
from plgc.experiments.numbers import spread, unit, with_interval
from plgc.experiments.rows import PUBLISHED, SummaryRow
from plgc.experiments.summary import summarise
from plgc.experiments.within import compared, within_notes
from plgc.graphs.catalog import title
from publish_words import Results

COSTS = {"condense_seconds": "seconds", "condense_cpu_seconds": "CPU-seconds"}
GUESSING = 0.5


def histories(results: Results) -> Iterator[str]:
    """Where every claim holds, in both ways of scoring, and what the files cost beside those they are compared with."""
    yield from (f"- {line}." for line in within_notes(results.experiment, results.rows))
    yield from _costs(results)


def forgetting(results: Results) -> Iterator[str]:
    """The same, and what the strongest attack tells of nodes that have left."""
    yield from histories(results)
    yield from _attacks(results)


def _costs(results: Results) -> Iterator[str]:
    """The mean share of the other file's cost, cell by cell, on every kind of machine."""
    records = {_place(record["cell"], record["cell"].get("history")): record for record in results.records}
    for within in results.experiment.within:
        for name, words in COSTS.items():
            shares: dict[str, list[float]] = {}
            for record in records.values():
                cell = record["cell"]
                other = records.get(_place(cell, within.of), {})
                if cell.get("history") != within.history or not other.get(name) or record.get(name) is None:
                    continue
                if record.get("device") == other.get("device"):
                    where = f"{record.get('device')}, {record.get('threads')} thread(s)"
                    shares.setdefault(where, []).append(100 * record[name] / other[name])
            for where, found in shares.items():
                yield (
                    f"- `{within.history}` takes {statistics.fmean(found):.0f} % of the {words} of `{within.of}` on "
                    f"average, {min(found):.0f} to {max(found):.0f} % ({where})."
                )


def _place(cell: dict[str, Any], history: str | None) -> tuple[Any, ...]:
    named = (cell.get(name) for name in ("graph", "method", "nodes", "preset", "seed", "release", "year", "share"))
    return (*named, history)


def _attacks(results: Results) -> Iterator[str]:
    """Of every graph and share, the attack that is strongest on the file which forgot: its AUC, and differences."""
    experiment, records = results.experiment, results.records
    names = sorted({name for record in records for name in record.get("metrics", {}) if name.startswith("auc_")})
    strongest: dict[tuple[Any, ...], tuple[float, str, SummaryRow, Difference]] = {}
    others: dict[tuple[Any, ...], str] = {}
    for name in names:
        rows = [row for row in summarise(experiment, records, name) if row.values and row.way == PUBLISHED]
        form = unit(experiment, name)
        for one in compared(experiment, rows):
            place = one.row.graph, *_drawn(one.row)
            mean = statistics.fmean(one.row.values.values())
            if place not in strongest or mean > strongest[place][0]:
                strongest[place] = mean, name, one.row, one.difference
                old = [row for row in rows if (row.graph, *_drawn(row), row.level("history")) == (*place, "old")]
                others[place] = spread(old[0].values.values(), form) if old else "-"
    for place, (_, name, row, less) in strongest.items():
        form = unit(experiment, name)
        guessed = Difference("guessing", {draw: value - GUESSING for draw, value in row.values.items()})
        files = ", private files" if place[2] == PRIVATE else ""
        yield (
            f"- {title(place[0])}, {100 * place[1]:g} % forgotten{files}, the attack strongest on the file that forgot "
            f"them (`{name.removeprefix('auc_')}`): AUC {spread(row.values.values(), form)}, less {GUESSING} "
            f"{with_interval(guessed, form)} ({verdict(guessed)}), less `{less.other}` {with_interval(less, form)} "
            f"({verdict(less)}); on the old file {others[place]}."
        )


def _drawn(row: SummaryRow) -> tuple[Any, ...]:
    """The share that leaves, and which files."""
    return row.level("share"), row.level("release")
