"""Records as tables, with the paper's numbers and the controls; as text, Markdown or CSV.

No value is filled in: a cell that failed or was not run says so, and the paper's numbers have a column of their own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.experiments.columns import Line, along_level, beside_default, beside_paper
from plgc.experiments.notes import table_notes
from plgc.experiments.numbers import NONE, mean_std
from plgc.experiments.rows import PROTOCOL, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.experiments.summary import summarise
from plgc.graphs.catalog import is_known, title
from plgc.runtime.text import csv_cell, markdown_cell

COSTS = {  # a record's costs: their heading, and the unit they are shown in
    "condense_seconds": ("condensing, s", 1.0),
    "condense_cpu_seconds": ("condensing, CPU-s", 1.0),
    "learn_seconds": ("learning, s", 1.0),
    "condense_peak_memory_bytes": ("peak, MB", 1e6),
    "bytes": ("file, kB", 1e3),
}


@dataclass(frozen=True)
class ResultTable:
    """A heading, rows of text of which the first ``names`` columns are no numbers, notes, and lines for CSV."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    notes: tuple[str, ...]
    lines: tuple[Mapping[str, Any], ...]


def make_table(
    experiment: Experiment,
    records: Iterable[Mapping[str, Any]],
    metric: str | None = None,
    unavailable: Collection[str] | None = None,
) -> ResultTable:
    """Put an experiment's records in a table.

    Args:
        experiment: says which graphs, methods and levels belong to it, in which order, and has the paper's numbers.
        records: as :func:`plgc.experiments.records.read_records` returns them.
        metric: what to show; by default each graph's own. The paper's numbers are of the experiment's alone.
        unavailable: graphs that cannot be loaded; None for those whose names the catalogue does not have.
    """
    records = list(records)
    found = summarise(experiment, records, metric)
    values = {level: {row.level(level) for row in found} for level in PROTOCOL}
    values["release"].discard(None)  # of controls, beside files of a single release
    varying = [level for level in PROTOCOL if len(values[level]) > 1]
    levels = [level for level in varying if level != experiment.across]
    names = ["graph", "nodes", "ratio", *levels, "method"]
    failures: dict[str, int] = {}
    varied = "variant" in levels
    layout = beside_default if varied else along_level if experiment.across else beside_paper
    columns, lines = layout(experiment, found, failures)
    rows = [
        [*_names(experiment, line, levels), *line.cells, *(_also(name, line) for name in experiment.also)]
        for line in lines
    ]
    head = [*names, *columns, *(COSTS.get(name, (name, 1.0))[0] for name in experiment.also)]
    rows += [
        [title(graph), *[NONE] * (len(names) - 1), state, *[NONE] * (len(head) - len(names) - 1)]
        for graph, state in _without_records(experiment, found, unavailable).items()
    ]
    order = [title(plan.name) for plan in experiment.graphs]
    rows.sort(key=lambda row: order.index(row[0]))
    kept = [i for i in range(len(head)) if i == len(names) or any(row[i] != NONE for row in rows)]
    return ResultTable(
        title=f"{experiment.name}: {experiment.title}",
        head=tuple(head[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        names=sum(i < len(names) for i in kept),
        notes=tuple(table_notes(experiment, records, found, [head[i] for i in kept], failures)),
        lines=tuple(row.line() for row in found),
    )


def to_text(table: ResultTable) -> str:
    """For a terminal: columns of equal width, numbers to the right."""
    lines = [table.head, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]

    def aligned(line: Sequence[str]) -> str:
        cells = zip(line, widths, strict=True)
        return "  ".join(c.ljust(w) if i < table.names else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", aligned(table.head), rule, *map(aligned, table.rows), "", *table.notes]) + "\n"


def to_markdown(table: ResultTable) -> str:
    """The table and its notes, without a title."""
    sides = ["---" if i < table.names else "---:" for i in range(len(table.head))]
    lines = [[markdown_cell(cell) for cell in line] for line in (table.head, *table.rows)]
    lines.insert(1, sides)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return rows + "\n\n" + "\n".join(f"- {markdown_cell(note)}" for note in table.notes) + "\n"


def to_csv(table: ResultTable) -> str:
    """One line per method, graph, size and protocol, with every seed's value in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(SummaryRow("", None, None, "", (None,) * len(PROTOCOL)).line()))
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in line.items()} for line in table.lines)
    return text.getvalue().replace("\r\n", "\n")


def _also(name: str, line: Line) -> str:
    """The mean of another metric or cost, over all the seeds of a row."""
    values = [value for row in line.members for value in row.also.get(name, [])] if line.costs else []
    if not values:
        return NONE
    mean = mean_std(values)[0] / COSTS.get(name, ("", 1.0))[1]
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.3g}"


def _names(experiment: Experiment, line: Line, levels: Sequence[str]) -> list[str]:
    row = line.members[0]
    ratios = {
        nodes: ratio
        for plan in experiment.graphs
        if plan.name == row.graph
        for nodes, ratio in zip(plan.nodes, plan.ratios, strict=False)
    }
    nodes = NONE if row.nodes is None else str(row.nodes)
    shown = [level_name(level, row.level(level)) for level in levels]
    return [title(row.graph), nodes, ratios.get(row.nodes or 0, NONE), *shown, line.name]


def _without_records(
    experiment: Experiment, found: Sequence[SummaryRow], unavailable: Collection[str] | None
) -> dict[str, str]:
    run = {row.graph for row in found}
    names = [name for name in dict.fromkeys(plan.name for plan in experiment.graphs) if name not in run]
    missing = {name for name in names if not is_known(name)} if unavailable is None else set(unavailable)
    return {name: "graph not available" if name in missing else "not run" for name in names}
