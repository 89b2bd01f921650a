"""Records as tables: ours beside the paper's numbers and the controls; as text, Markdown or CSV.

Nothing is filled in: what failed says so, what was not run says so, and the paper's numbers have a column of their own.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plgc.errors import SettingError
from plgc.evaluation import CONTROLS
from plgc.experiments.records import identity
from plgc.experiments.spec import METRICS, RIVALS, Experiment, GraphPlan, cells
from plgc.graphs.catalog import is_known
from plgc.methods import METHODS

PROTOCOL = ("backbone", "shots", "labels", "noise", "imbalance", "inductive")  # what a cell asks of all methods alike
ORDER = (*METHODS, *RIVALS)
NONE, ALL = "-", "all"
MESSAGE = 200  # characters of an error that a footnote shows


@dataclass
class Entry:
    """One method on one graph at one size under one protocol, over its seeds.

    Attributes:
        graph, nodes, preset, method: as in a cell.
        protocol: the cell's values of :data:`PROTOCOL`.
        values: the metric by seed.
        errors: messages of the seeds that failed.
        paper: the paper's mean and standard deviation, where it has them.
        control: the better of the two controls on the seeds in common.
        pairs: differences to that control, seed by seed.
        machines, commits: what the values were made with.
    """

    graph: str
    nodes: int | None
    preset: str | None
    method: str
    protocol: tuple[Any, ...]
    values: dict[int, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    paper: tuple[float, float | None] | None = None
    control: str | None = None
    pairs: list[float] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)
    commits: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The method as tables call it."""
        return self.method if self.preset in (None, "default") else f"{self.method} ({self.preset} preset)"

    def level(self, name: str) -> Any:
        """One value of the protocol."""
        return self.protocol[PROTOCOL.index(name)]


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
        lines=tuple(_csv_line(entry, metric) for entry in entries),
    )


def summarise(experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str) -> list[Entry]:
    """Records over their seeds, in the experiment's order, paired with controls and matched with the paper's numbers.

    Records of other experiments, graphs or sizes are left out; methods and levels beyond the file's are kept.
    """
    sizes: dict[str, set[int | None]] = {}
    for plan in experiment.graphs:
        sizes.setdefault(plan.name, {None}).update(plan.nodes)
    found: dict[tuple[Any, ...], Entry] = {}
    recorded: set[str] = set()
    for record in records:
        cell = record["cell"]
        if cell["experiment"] != experiment.name or cell["nodes"] not in sizes.get(cell["graph"], ()):
            continue
        key = (cell["graph"], cell["nodes"], cell["preset"], cell["method"], tuple(cell[name] for name in PROTOCOL))
        entry = found.setdefault(key, Entry(*key))
        recorded.update(record.get("metrics", ()))
        if "error" in record:
            entry.errors.append(_short(record["error"]))
        elif metric not in record["metrics"]:
            entry.errors.append(f"there is no {metric}: it was not recorded, or was not finite")
        else:
            entry.values[cell["seed"]] = record["metrics"][metric]
            entry.machines.add(record.get("machine") or "unknown")
            entry.commits.add(record.get("commit") or "unknown")
    if metric not in recorded and (recorded or metric not in METRICS):
        known = ", ".join(sorted(recorded)) or ", ".join(METRICS)
        raise SettingError(f"there is no metric {metric!r} in the records: choose {known}")
    if metric == experiment.metric and experiment.across is None:
        _add_paper(experiment, found)
    _pair_with_controls(found.values())
    return sorted(found.values(), key=_order(experiment))


def mean_std(values: Collection[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n − 1); a single value has none."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


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
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (table.head, *table.rows)]
    lines.insert(1, sides)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return rows + "\n\n" + "\n".join(f"- {note}" for note in table.notes) + "\n"


def to_csv(table: Table) -> str:
    """One line per method, graph, size and protocol, with every seed's value in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_csv_line(Entry("", None, None, "", (None,) * len(PROTOCOL)), "")))
    writer.writeheader()
    writer.writerows(table.lines)
    return text.getvalue().replace("\r\n", "\n")


def level_name(level: str, value: Any) -> str:
    """A level's value in a heading or on an axis; no number of labels means all of them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ALL if level in ("shots", "labels") else NONE
    return value if isinstance(value, str) else f"{value:g}"


def level_values(experiment: Experiment, entries: Iterable[Entry], level: str) -> list[Any]:
    """The values of a level that the experiment names or that were run: numbers in order, all labels last."""
    named = [value for levels in (experiment, *experiment.graphs) for value in levels.levels.get(level, ())]
    planned = [None if value == ALL else value for value in named]
    values = list(dict.fromkeys([*planned, *(entry.level(level) for entry in entries)]))
    if any(isinstance(value, str) for value in values):
        return values
    return sorted(values, key=lambda value: (value is None, value or 0))


def _add_paper(experiment: Experiment, found: dict[tuple[Any, ...], Entry]) -> None:
    """Set the paper's numbers beside ours, and rows of their own for methods that we have no records of.

    A graph that goes through several levels has none: the file does not say which of them the paper's numbers are of.
    """
    run = {entry.graph for entry in found.values()}
    for plan in experiment.graphs:
        protocols = _planned_protocols(experiment, plan)
        if plan.name not in run or len(protocols) != 1:
            continue
        for method, numbers in plan.paper.items():
            sized = method in RIVALS or METHODS[method].sized
            for nodes, (mean, *rest) in zip(plan.nodes if sized else (None,), numbers, strict=True):
                if math.isnan(mean):
                    continue
                keys = [key for key in found if (key[0], key[1], *key[3:]) == (plan.name, nodes, method, protocols[0])]
                for key in keys or [(plan.name, nodes, None, method, protocols[0])]:
                    found.setdefault(key, Entry(*key)).paper = (mean, rest[0] if rest else None)


def _planned_protocols(experiment: Experiment, plan: GraphPlan) -> list[tuple[Any, ...]]:
    planned = cells(replace(experiment, graphs=(replace(plan, seeds=1),)))
    return list(dict.fromkeys(tuple(getattr(cell, name) for name in PROTOCOL) for cell in planned))


def _pair_with_controls(entries: Collection[Entry]) -> None:
    """The difference to the better control, on the seeds that the method and the controls have in common."""
    controls = {(e.method, e.graph, e.protocol): e.values for e in entries if e.method in CONTROLS}
    for entry in entries:
        near = {name: controls.get((name, entry.graph, entry.protocol), {}) for name in CONTROLS}
        near = {name: values for name, values in near.items() if values}
        seeds = sorted(set(entry.values).intersection(*near.values()))
        if near and seeds and entry.method not in CONTROLS:
            means = {name: statistics.fmean(values[seed] for seed in seeds) for name, values in near.items()}
            entry.control = max(means, key=means.__getitem__)
            entry.pairs = [entry.values[seed] - near[entry.control][seed] for seed in seeds]


def _order(experiment: Experiment) -> Any:
    graphs = {plan.name: place for place, plan in reversed(list(enumerate(experiment.graphs)))}
    methods = {name: place for place, name in enumerate(dict.fromkeys((*experiment.methods, *ORDER)))}
    levels = {name: level_values(experiment, (), name) for name in PROTOCOL}

    def place(entry: Entry) -> tuple[Any, ...]:
        level = [
            (levels[name].index(value), "") if value in levels[name] else (len(levels[name]), str(value))
            for name, value in zip(PROTOCOL, entry.protocol, strict=True)
        ]
        preset = (entry.preset not in (None, "default"), entry.preset or "")
        return graphs[entry.graph], entry.nodes or 0, *level, methods.get(entry.method, len(methods)), preset

    return place


def _beside_paper(
    experiment: Experiment, entries: Sequence[Entry], metric: str, failures: dict[str, int]
) -> tuple[list[str], list[list[str]], int]:
    """One method a row: its figure, the paper's, and the difference to both the paper's and the better control's."""
    levels, digits = _varying(entries), _digits(metric)
    head = ["graph", "nodes", "ratio", *levels, "method", metric, "seeds", "paper", "− paper", "− best control"]
    rows = []
    for entry in entries:
        shown = _value(entry, digits, failures)
        if shown == NONE and entry.method in experiment.methods:
            shown = "not run"
        row = [shown, f"{len(entry.values)}" if entry.values else NONE]
        row += [_spread(entry.paper, digits)]
        row += [_signed(difference, digits) if (difference := _difference(entry)) is not None else NONE]
        paired = _spread(mean_std(entry.pairs), digits, sign="+") if entry.pairs else NONE
        row += [paired + f" (n={len(entry.pairs)})" * (0 < len(entry.pairs) < len(entry.values))]
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
    for entry in entries:
        few = f" (n={len(entry.values)})" if 0 < len(entry.values) < most else ""
        cells_of = grouped.setdefault(tuple(_names(experiment, entry, levels)), {})
        cells_of[entry.level(across)] = _value(entry, digits, failures) + few
    rows = [[*names, *(found.get(value, NONE) for value in values)] for names, found in grouped.items()]
    head = ["graph", "nodes", "ratio", *levels, "method", *(f"{across} {level_name(across, v)}" for v in values)]
    return head, rows, 4 + len(levels)


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
    for message, mark in failures.items():
        yield f"[{mark}] {message}"


def _csv_line(entry: Entry, metric: str) -> dict[str, Any]:
    mean, std = mean_std(entry.values.values()) if entry.values else (None, None)
    paired_mean, paired_std = mean_std(entry.pairs) if entry.pairs else (None, None)
    paper_mean, paper_std = entry.paper or (None, None)
    return {
        "graph": entry.graph,
        "nodes": entry.nodes,
        "preset": entry.preset,
        "method": entry.method,
        **dict(zip(PROTOCOL, entry.protocol, strict=True)),
        "metric": metric,
        "mean": mean,
        "std": std,
        "seeds": len(entry.values),
        "values": " ".join(repr(float(value)) for _, value in sorted(entry.values.items())),
        "paper_mean": paper_mean,
        "paper_std": paper_std,
        "difference": _difference(entry),
        "paired_control": entry.control,
        "paired_mean": paired_mean,
        "paired_std": paired_std,
        "machine": "; ".join(sorted(entry.machines)),
        "commit": "; ".join(sorted(entry.commits)),
        "error": "; ".join(dict.fromkeys(entry.errors)),
    }


def _difference(entry: Entry) -> float | None:
    return statistics.fmean(entry.values.values()) - entry.paper[0] if entry.values and entry.paper else None


def _digits(metric: str) -> int:
    return METRICS.get(metric, 1 if metric.endswith("accuracy") else 3)


def _spread(found: tuple[float, float | None] | None, digits: int, sign: str = "") -> str:
    if found is None:
        return NONE
    mean = _signed(found[0], digits) if sign else f"{found[0]:.{digits}f}"
    return mean if found[1] is None else f"{mean} ± {found[1]:.{digits}f}"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no negative zero


def _short(message: str) -> str:
    line = " ".join(message.split("\n", 1)[0].split())
    return line if len(line) <= MESSAGE else line[: MESSAGE - 1] + "…"
