"""Records as tables, with the paper's numbers and the controls; as text, Markdown or CSV.

No value is filled in: a cell that failed or was not run says so, and the paper's numbers have a column of their own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.grid import cells
from plgc.experiments.records import identity
from plgc.experiments.spec import METRICS, Experiment
from plgc.experiments.summary import NONE, PROTOCOL, SummaryRow, level_name, level_values, mean_std, summarise
from plgc.graphs.catalog import is_known
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
        metric: what to show; by default the experiment's own. The paper's numbers are of that one alone.
        unavailable: graphs that cannot be loaded; None for those whose names the catalogue does not have.
    """
    records, metric = list(records), metric or experiment.metric
    found = summarise(experiment, records, metric)
    varying = [level for level in PROTOCOL if len({row.level(level) for row in found}) > 1]
    levels = [level for level in varying if level != experiment.across]
    names = ["graph", "nodes", "ratio", *levels, "method"]
    failures: dict[str, int] = {}
    columns, values = (_along_level if experiment.across else _beside_paper)(experiment, found, metric, failures)
    rows = [
        [*_names(experiment, members[0], levels), *cells, *(_also(name, members) for name in experiment.also)]
        for members, cells in values
    ]
    head = [*names, *columns, *(COSTS.get(name, (name, 1.0))[0] for name in experiment.also)]
    rows += [
        [graph, *[NONE] * (len(names) - 1), state, *[NONE] * (len(head) - len(names) - 1)]
        for graph, state in _without_records(experiment, found, unavailable).items()
    ]
    order = [plan.name for plan in experiment.graphs]
    rows.sort(key=lambda row: order.index(row[0]))
    kept = [i for i in range(len(head)) if i == len(names) or any(row[i] != NONE for row in rows)]
    return ResultTable(
        title=f"{experiment.name}: {experiment.title}",
        head=tuple(head[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        names=sum(i < len(names) for i in kept),
        notes=tuple(_notes(experiment, records, found, metric, [head[i] for i in kept], failures)),
        lines=tuple(row.line(metric) for row in found),
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
    writer = csv.DictWriter(text, list(SummaryRow("", None, None, "", (None,) * len(PROTOCOL)).line("")))
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in line.items()} for line in table.lines)
    return text.getvalue().replace("\r\n", "\n")


Values = tuple[list[str], list[tuple[list[SummaryRow], list[str]]]]  # headings; for each row its members and cells


def _beside_paper(experiment: Experiment, found: Sequence[SummaryRow], metric: str, failures: dict[str, int]) -> Values:
    """One method a row: its value, the paper's, and the differences to the paper and to the best control."""
    digits, values = _digits(metric), []
    for row in found:
        shown = _value(row, digits, failures)
        if shown == NONE and row.method in experiment.methods:
            shown = "not run"
        cells = [shown, f"{len(row.values)}" if row.values else NONE]
        cells += [NO_MEMORY if row.paper == () else _spread(row.paper, digits)]
        cells += [NONE if row.difference is None else _signed(row.difference, digits)]
        paired = _spread(mean_std(row.pairs), digits, sign="+") if row.pairs else NONE
        cells += [paired + f" (n={len(row.pairs)})" * (0 < len(row.pairs) < len(row.values))]
        values.append(([row], cells))
    return [metric, "seeds", "paper", "− paper", "− best control"], values


def _along_level(experiment: Experiment, found: Sequence[SummaryRow], metric: str, failures: dict[str, int]) -> Values:
    """One method a row, one value of the level a column; a cell with fewer seeds than others has their number."""
    across, digits = experiment.across, _digits(metric)
    assert across is not None
    along = level_values(experiment, found, across)
    most = max((len(row.values) for row in found), default=0)
    groups: dict[tuple[Any, ...], tuple[list[SummaryRow], dict[Any, str]]] = {}
    for row in found:
        others = [row.level(level) for level in PROTOCOL if level != across]
        members, shown = groups.setdefault((row.graph, row.nodes, row.name, *others), ([], {}))
        members.append(row)
        few = f" (n={len(row.values)})" if 0 < len(row.values) < most else ""
        shown[row.level(across)] = _value(row, digits, failures) + few
    values = [(members, [shown.get(value, NONE) for value in along]) for members, shown in groups.values()]
    return [f"{across} {level_name(across, value)}" for value in along], values


def _also(name: str, members: Sequence[SummaryRow]) -> str:
    """The mean of another metric or cost, over all the seeds of a row."""
    values = [value for row in members for value in row.also.get(name, [])]
    if not values:
        return NONE
    mean = mean_std(values)[0] / COSTS.get(name, ("", 1.0))[1]
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.3g}"


def _names(experiment: Experiment, row: SummaryRow, levels: Sequence[str]) -> list[str]:
    ratios = {
        nodes: ratio
        for plan in experiment.graphs
        if plan.name == row.graph
        for nodes, ratio in zip(plan.nodes, plan.ratios, strict=False)
    }
    nodes = NONE if row.nodes is None else str(row.nodes)
    shown = [level_name(level, row.level(level)) for level in levels]
    return [row.graph, nodes, ratios.get(row.nodes or 0, NONE), *shown, row.name]


def _without_records(
    experiment: Experiment, found: Sequence[SummaryRow], unavailable: Collection[str] | None
) -> dict[str, str]:
    run = {row.graph for row in found}
    names = [name for name in dict.fromkeys(plan.name for plan in experiment.graphs) if name not in run]
    missing = {name for name in names if not is_known(name)} if unavailable is None else set(unavailable)
    return {name: "graph not available" if name in missing else "not run" for name in names}


def _value(row: SummaryRow, digits: int, failures: dict[str, int]) -> str:
    """Mean ± standard deviation, and how many seeds failed, with the number of the footnote."""
    shown = [_spread(mean_std(row.values.values()), digits)] if row.values else []
    if row.errors:
        marks = sorted({failures.setdefault(message, len(failures) + 1) for message in row.errors})
        count = f"{len(row.errors)} " if row.values else ""
        shown.append(f"{count}failed {''.join(f'[{mark}]' for mark in marks)}")
    return ", ".join(shown) or NONE


def _notes(
    experiment: Experiment,
    records: Sequence[Mapping[str, Any]],
    found: Sequence[SummaryRow],
    metric: str,
    head: Sequence[str],
    failures: Mapping[str, int],
) -> Iterable[str]:
    counts = sorted({len(row.values) for row in found if row.values})
    unit = ", %" if _digits(metric) == 1 else ""
    yield f"metric: {metric}{unit}; mean ± standard deviation over seeds (n − 1)"
    if counts:
        ragged = " (n= where there are fewer)" if experiment.across and len(counts) > 1 else ""
        yield f"seeds: {counts[0]}" if len(counts) == 1 else f"seeds: {counts[0]} to {counts[-1]}{ragged}"
    planned = {cell.identity() for cell in cells(experiment)}
    done = {identity(dict(record)) for record in records if "error" not in record}
    if planned - done:
        yield f"cells: {len(planned & done)} of {len(planned)} done"
    for name in ("machine", "commit"):
        each = sorted(set().union(*(getattr(row, f"{name}s") for row in found)))
        if each:
            yield f"{name}{'s' * (len(each) > 1)}: {'; '.join(each)}"
    if "paper" in head:
        yield "paper: the paper's own figures, not measured here; − paper: ours less the paper's mean"
    controls = [name for name in CONTROLS if any(row.method == name and row.values for row in found)]
    best = "best" if len(controls) > 2 else "better"
    if "− best control" in head:
        yield f"− best control: seed by seed, less {_one_of(controls, best)} on the same labels"
    if experiment.across and any(row.pairs for row in found):
        command = f"plgc experiment table {experiment.name} --format csv"
        rows = f"controls ({', '.join(controls)}) have rows of their own"
        yield f"{rows}; differences to the {best}, seed by seed: {command}"
    for message, mark in failures.items():
        yield f"[{mark}] {message}"


def _one_of(names: Sequence[str], best: str) -> str:
    """A single name, or the better or best of several."""
    return names[0] if len(names) == 1 else f"the {best} of {', '.join(names[:-1])} and {names[-1]}"


def _digits(metric: str) -> int:
    return METRICS.get(metric, 1 if metric.endswith("accuracy") else 3)


def _spread(found: Sequence[float | None] | None, digits: int, sign: str = "") -> str:
    if found is None or found[0] is None:
        return NONE
    mean = _signed(found[0], digits) if sign else f"{found[0]:.{digits}f}"
    return mean if found[1] is None else f"{mean} ± {found[1]:.{digits}f}"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no negative zero
