"""Records as tables, with the paper's numbers and the controls; as text, Markdown or CSV.

No value is filled in: a cell that failed or was not run says so, and the paper's numbers have a column of their own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from plgc.experiments.notes import is_ours, table_notes
from plgc.experiments.numbers import NONE, Unit, mean_std, shown_pair, signed, spread, unit, with_interval
from plgc.experiments.spec import Experiment
from plgc.experiments.summary import PROTOCOL, SummaryRow, level_name, level_values, summarise
from plgc.graphs.catalog import is_known, title
from plgc.runtime.text import csv_cell, markdown_cell

NO_MEMORY = "out of memory"
COSTS = {  # a record's costs: their heading, and the unit they are shown in
    "condense_seconds": ("condensing, s", 1.0),
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
    varying = [level for level in PROTOCOL if len({row.level(level) for row in found}) > 1]
    levels = [level for level in varying if level != experiment.across]
    names = ["graph", "nodes", "ratio", *levels, "method"]
    failures: dict[str, int] = {}
    columns, lines = (_along_level if experiment.across else _beside_paper)(experiment, found, failures)
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


class Line(NamedTuple):
    """A row to show: the method or what is said of it, the rows it is made from, and the cells."""

    name: str
    members: Sequence[SummaryRow]
    cells: list[str]
    costs: bool = True


def _beside_paper(
    experiment: Experiment, found: Sequence[SummaryRow], failures: dict[str, int]
) -> tuple[list[str], list[Line]]:
    """One method a row: its value, the paper's, and the differences to the paper and to the best control."""
    lines = []
    for row in found:
        form = unit(experiment, row.metric)
        shown = _value(row, form, failures)
        if shown == NONE and row.method in experiment.methods:
            shown = "not run"
        cells = [shown, f"{row.seeds}" if row.values else NONE, spread(row.learned.values(), form)]
        cells += [NO_MEMORY if row.paper == () else NONE if row.paper is None else shown_pair(row.paper, form)]
        cells += [NONE if row.difference is None else signed(row.difference, form)]
        pairs = row.less_control.values.values() if row.less_control else ()
        cells += [spread(pairs, form, sign="+") + f" (n={len(pairs)})" * (0 < len(pairs) < len(row.values))]
        lines.append(Line(row.name, [row], [*cells, with_interval(row.less_all, form)]))
    heads = ["seeds", "learned part", "paper", "− paper", "− best control", "− best of all"]
    return [_score_name(found, experiment), *heads], lines


def _along_level(
    experiment: Experiment, found: Sequence[SummaryRow], failures: dict[str, int]
) -> tuple[list[str], list[Line]]:
    """One method a row, one value of the level a column; a cell with fewer values than others has their number.

    Below ours, where the experiment names what it is to be above: the learned part by itself, and differences.
    """
    across = experiment.across
    assert across is not None
    along = level_values(experiment, found, across)
    most: dict[Any, int] = {}
    for row in found:
        most[_column(experiment, row)] = max(most.get(_column(experiment, row), 0), len(row.values))
    groups: dict[tuple[Any, ...], dict[Any, SummaryRow]] = {}
    for row in found:
        others = [row.level(level) for level in PROTOCOL if level != across]
        groups.setdefault((row.graph, row.nodes, row.name, *others), {})[row.level(across)] = row
    lines = []

    def add(name: str, members: Mapping[Any, SummaryRow], show: Callable[[SummaryRow], str], costs: bool) -> None:
        cells = [show(members[value]) if value in members else NONE for value in along]
        if costs or any(cell != NONE for cell in cells):
            seeds = max(row.seeds for row in members.values())
            lines.append(Line(name, list(members.values()), [*cells, str(seeds) if experiment.draws else NONE], costs))

    def value(row: SummaryRow) -> str:
        few = f" (n={len(row.values)})" if 0 < len(row.values) < most[_column(experiment, row)] else ""
        return _value(row, unit(experiment, row.metric), failures) + few

    further: dict[str, Callable[[SummaryRow], str]] = {
        ", learned part alone": lambda row: spread(row.learned.values(), unit(experiment, row.metric)),
        " − best control": lambda row: with_interval(row.less_control, unit(experiment, row.metric)),
        " − best of all": lambda row: with_interval(row.less_all, unit(experiment, row.metric)),
    }
    for members in groups.values():
        first = next(iter(members.values()))
        add(first.name, members, value, costs=True)
        for name, show in further.items() if experiment.against and is_ours(first.method) else ():
            add(first.name + name, members, show, costs=False)
    return [*(f"{across} {level_name(across, value)}" for value in along), "seeds"], lines


def _column(experiment: Experiment, row: SummaryRow) -> Any:
    """Cells that have as many values as one another, where none is missing."""
    return (row.graph, row.level(experiment.across or "")) if experiment.draws else None


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


def _value(row: SummaryRow, form: Unit, failures: dict[str, int]) -> str:
    """Mean ± standard deviation, and how many seeds failed, with the number of the footnote."""
    shown = [spread(row.values.values(), form)] if row.values else []
    if row.errors:
        marks = sorted({failures.setdefault(message, len(failures) + 1) for message in row.errors})
        count = f"{len(row.errors)} " if row.values else ""
        shown.append(f"{count}failed {''.join(f'[{mark}]' for mark in marks)}")
    return ", ".join(shown) or NONE


def _score_name(found: Sequence[SummaryRow], experiment: Experiment) -> str:
    """The heading of the values: the metric, if it is one."""
    metrics = list(dict.fromkeys(row.metric for row in found)) or [experiment.metric]
    return metrics[0] if len(metrics) == 1 else "score"
