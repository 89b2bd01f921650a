"""Records as tables: ours beside the paper's numbers and the controls; as text, Markdown or CSV.

Nothing is filled in: what failed says so, what was not run says so, and the paper's numbers have a column of their own.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.grid import cells
from plgc.experiments.records import identity
from plgc.experiments.spec import METRICS, Experiment
from plgc.experiments.summary import NONE, PROTOCOL, Entry, level_name, level_values, mean_std, summarise
from plgc.graphs.catalog import is_known

NO_MEMORY = "out of memory"
COSTS = {  # a record's costs: how a heading calls them, and the unit they are shown in
    "condense_seconds": ("condensing, s", 1.0),
    "learn_seconds": ("learning, s", 1.0),
    "condense_peak_memory_bytes": ("peak, MB", 1e6),
    "bytes": ("file, kB", 1e3),
}


@dataclass(frozen=True)
class Table:
    """What is shown: a heading, rows of text of which the first ``names`` columns are no numbers, notes, CSV lines."""

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
) -> Table:
    """Put an experiment's records in a table.

    Args:
        experiment: says which graphs, methods and levels belong to it, in which order, and has the paper's numbers.
        records: as :func:`plgc.experiments.records.read_records` returns them.
        metric: what to show; by default the experiment's own. The paper's numbers are of that one alone.
        unavailable: graphs that cannot be had; None looks for names that the catalogue does not know.
    """
    records, metric = list(records), metric or experiment.metric
    entries = summarise(experiment, records, metric)
    failures: dict[str, int] = {}
    make = _along_level if experiment.across else _beside_paper
    head, rows, names = make(experiment, entries, metric, failures)
    rows += [
        [graph, *[NONE] * (names - 1), state, *[NONE] * (len(head) - names - 1)]
        for graph, state in _without_records(experiment, entries, unavailable).items()
    ]
    places = {plan.name: place for place, plan in reversed(list(enumerate(experiment.graphs)))}
    rows.sort(key=lambda row: places[row[0]])
    kept = [i for i in range(len(head)) if i == names or any(row[i] != NONE for row in rows)]
    return Table(
        title=f"{experiment.name}: {experiment.title}",
        head=tuple(head[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        names=sum(i < names for i in kept),
        notes=tuple(_notes(experiment, records, entries, metric, [head[i] for i in kept], failures)),
        lines=tuple(entry.line(metric) for entry in entries),
    )


def to_text(table: Table) -> str:
    """For a terminal: columns of equal width, numbers to the right."""
    lines = [table.head, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]

    def aligned(line: Sequence[str]) -> str:
        cells = zip(line, widths, strict=True)
        return "  ".join(c.ljust(w) if i < table.names else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", aligned(table.head), rule, *map(aligned, table.rows), "", *table.notes]) + "\n"


def to_markdown(table: Table) -> str:
    """The table and its notes, without a title."""
    sides = ["---" if i < table.names else "---:" for i in range(len(table.head))]
    lines = [[_plain(cell) for cell in line] for line in (table.head, *table.rows)]
    lines.insert(1, sides)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return rows + "\n\n" + "\n".join(f"- {_plain(note)}" for note in table.notes) + "\n"


def _plain(text: str) -> str:
    """Text that is no markup: two footnotes side by side would pass for a link."""
    return re.sub(r"([|\[\]])", r"\\\1", text)


def to_csv(table: Table) -> str:
    """One line per method, graph, size and protocol, with every seed's value in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Entry("", None, None, "", (None,) * len(PROTOCOL)).line("")))
    writer.writeheader()
    writer.writerows(table.lines)
    return text.getvalue().replace("\r\n", "\n")


def _beside_paper(
    experiment: Experiment, entries: Sequence[Entry], metric: str, failures: dict[str, int]
) -> tuple[list[str], list[list[str]], int]:
    """One method a row: its figure, the paper's, and the difference to both the paper's and the better control's."""
    levels, digits = _varying(entries), _digits(metric)
    head = ["graph", "nodes", "ratio", *levels, "method", metric, "seeds", "paper", "− paper", "− best control"]
    head += [COSTS.get(name, (name, 1.0))[0] for name in experiment.also]
    rows = []
    for entry in entries:
        shown = _value(entry, digits, failures)
        if shown == NONE and entry.method in experiment.methods:
            shown = "not run"
        row = [shown, f"{len(entry.values)}" if entry.values else NONE]
        row += [NO_MEMORY if entry.paper == () else _spread(entry.paper, digits)]
        row += [NONE if entry.difference is None else _signed(entry.difference, digits)]
        paired = _spread(mean_std(entry.pairs), digits, sign="+") if entry.pairs else NONE
        row += [paired + f" (n={len(entry.pairs)})" * (0 < len(entry.pairs) < len(entry.values))]
        row += [_also(name, [entry]) for name in experiment.also]
        rows.append([*_names(experiment, entry, levels), *row])
    return head, rows, 4 + len(levels)


def _along_level(
    experiment: Experiment, entries: Sequence[Entry], metric: str, failures: dict[str, int]
) -> tuple[list[str], list[list[str]], int]:
    """One method a row, one value of the level a column; ragged seeds are counted in their cell."""
    across = experiment.across
    assert across is not None
    values, digits = level_values(experiment, entries, across), _digits(metric)
    levels = [level for level in _varying(entries) if level != across]
    most = max((len(entry.values) for entry in entries), default=0)
    grouped: dict[tuple[str, ...], dict[Any, str]] = {}
    beside: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        few = f" (n={len(entry.values)})" if 0 < len(entry.values) < most else ""
        row = tuple(_names(experiment, entry, levels))
        beside.setdefault(row, []).append(entry)
        cells_of = grouped.setdefault(row, {})
        cells_of[entry.level(across)] = _value(entry, digits, failures) + few
    rows = [
        [
            *names,
            *(found.get(value, NONE) for value in values),
            *(_also(name, beside[names]) for name in experiment.also),
        ]
        for names, found in grouped.items()
    ]
    head = ["graph", "nodes", "ratio", *levels, "method", *(f"{across} {level_name(across, v)}" for v in values)]
    head += [COSTS.get(name, (name, 1.0))[0] for name in experiment.also]
    return head, rows, 4 + len(levels)


def _also(name: str, entries: Sequence[Entry]) -> str:
    """The mean of something beside the metric, over all the seeds of a row."""
    values = [value for entry in entries for value in entry.also.get(name, [])]
    if not values:
        return NONE
    mean = mean_std(values)[0] / COSTS.get(name, ("", 1.0))[1]
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.3g}"


def _names(experiment: Experiment, entry: Entry, levels: Sequence[str]) -> list[str]:
    ratios = {
        nodes: ratio
        for plan in experiment.graphs
        if plan.name == entry.graph
        for nodes, ratio in zip(plan.nodes, plan.ratios, strict=False)
    }
    nodes = NONE if entry.nodes is None else str(entry.nodes)
    shown = [level_name(level, entry.level(level)) for level in levels]
    return [entry.graph, nodes, ratios.get(entry.nodes or 0, NONE), *shown, entry.name]


def _varying(entries: Sequence[Entry]) -> list[str]:
    return [level for level in PROTOCOL if len({entry.level(level) for entry in entries}) > 1]


def _without_records(
    experiment: Experiment, entries: Sequence[Entry], unavailable: Collection[str] | None
) -> dict[str, str]:
    run = {entry.graph for entry in entries}
    names = [name for name in dict.fromkeys(plan.name for plan in experiment.graphs) if name not in run]
    missing = {name for name in names if not is_known(name)} if unavailable is None else set(unavailable)
    return {name: "graph not available" if name in missing else "not run" for name in names}


def _value(entry: Entry, digits: int, failures: dict[str, int]) -> str:
    """Mean ± standard deviation; what failed is said beside it, with the number of its footnote."""
    shown = [_spread(mean_std(entry.values.values()), digits)] if entry.values else []
    if entry.errors:
        marks = sorted({failures.setdefault(message, len(failures) + 1) for message in entry.errors})
        count = f"{len(entry.errors)} " if entry.values else ""
        shown.append(f"{count}failed {''.join(f'[{mark}]' for mark in marks)}")
    return ", ".join(shown) or NONE


def _notes(
    experiment: Experiment,
    records: Sequence[Mapping[str, Any]],
    entries: Sequence[Entry],
    metric: str,
    head: Sequence[str],
    failures: Mapping[str, int],
) -> Iterable[str]:
    counts = sorted({len(entry.values) for entry in entries if entry.values})
    unit = ", %" if _digits(metric) == 1 else ""
    yield f"metric: {metric}{unit}; mean ± standard deviation over seeds (n − 1)"
    if counts:
        ragged = " (n= where there are fewer)" if experiment.across and len(counts) > 1 else ""
        yield f"seeds: {counts[0]}" if len(counts) == 1 else f"seeds: {counts[0]} to {counts[-1]}{ragged}"
    wanted = {cell.identity() for cell in cells(experiment)}
    done = {identity(dict(record)) for record in records if "error" not in record}
    if wanted - done:
        yield f"cells: {len(wanted & done)} of {len(wanted)} done"
    for name in ("machine", "commit"):
        found = sorted(set().union(*(getattr(entry, f"{name}s") for entry in entries)))
        if found:
            yield f"{name}{'s' * (len(found) > 1)}: {'; '.join(found)}"
    if "paper" in head:
        yield "paper: the paper's own figures, not measured here; − paper: ours less the paper's mean"
    if "− best control" in head:
        yield f"− best control: seed by seed, less the better of {' and '.join(CONTROLS)} on the same labels"
    if experiment.across and any(entry.pairs for entry in entries):
        found = [name for name in CONTROLS if any(entry.method == name and entry.values for entry in entries)]
        where = f"plgc experiment table {experiment.name} --format csv"
        yield f"controls ({', '.join(found)}) have rows of their own; differences to the better, seed by seed: {where}"
    for message, mark in failures.items():
        yield f"[{mark}] {message}"


def _digits(metric: str) -> int:
    return METRICS.get(metric, 1 if metric.endswith("accuracy") else 3)


def _spread(found: Sequence[float | None] | None, digits: int, sign: str = "") -> str:
    if found is None or found[0] is None:
        return NONE
    mean = _signed(found[0], digits) if sign else f"{found[0]:.{digits}f}"
    return mean if found[1] is None else f"{mean} ± {found[1]:.{digits}f}"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no negative zero
