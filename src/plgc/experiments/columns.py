"""The columns of a table: one value a row beside the paper's, a level along the row, or variants beside the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.compare import DEFAULT
from plgc.experiments.differences import Difference
from plgc.experiments.numbers import NONE, Unit, shown_pair, spread, unit, with_interval
from plgc.experiments.rows import OURS, PROTOCOL, PUBLISHED, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.experiments.summary import level_values
from plgc.experiments.within import lines_of

NO_MEMORY = "out of memory"
OURS_LESS = f"{OURS} − this"


class Line(NamedTuple):
    """A row to show: the method or what is said of it, the rows it is made from, and the cells."""

    name: str
    members: Sequence[SummaryRow]
    cells: list[str]
    costs: bool = True


Columns = tuple[list[str], list[Line]]


def beside_paper(experiment: Experiment, found: Sequence[SummaryRow], failures: dict[str, int]) -> Columns:
    """One method and way of scoring a row: its value, the paper's, and the differences."""
    lines = []
    for row in found:
        form = unit(experiment, row.metric)
        shown = _value(row, form, failures)
        if shown == NONE and row.method in experiment.methods:
            shown = "not run"
        cells = [shown, f"{row.seeds}" if row.values else NONE]
        cells += [NO_MEMORY if row.paper == () else NONE if row.paper is None else shown_pair(row.paper, form)]
        differences = (row.less_paper, row.less_control, row.less_all, row.less_default, row.ours_less)
        cells += [_paired(less, row, form) for less in differences]
        lines.append(Line(row.name, [row], cells, costs=row.way == PUBLISHED))
    heads = ["seeds", "paper", "− paper", "− best control", "− best of all", f"− {DEFAULT}", OURS_LESS]
    return [_score_name(found, experiment), *heads], lines


def along_level(experiment: Experiment, found: Sequence[SummaryRow], failures: dict[str, int]) -> Columns:
    """One method and way of scoring a row, one value of the level a column; below those of a graph, the differences.

    A cell with fewer values than others has their number. Ours as shipped is compared with every other method in
    whichever way of scoring is best for that.
    """
    across = experiment.across
    assert across is not None
    along = level_values(experiment, found, across)
    most: dict[Any, int] = {}
    for row in found:
        most[_column(experiment, row)] = max(most.get(_column(experiment, row), 0), len(row.values))

    def line(name: str, members: Mapping[Any, SummaryRow], show: Callable[[SummaryRow], str], costs: bool) -> Line:
        cells = [show(members[value]) if value in members else NONE for value in along]
        seeds = str(max(row.seeds for row in members.values())) if experiment.draws else NONE
        return Line(name, list(members.values()), [*cells, seeds], costs)

    def value(row: SummaryRow) -> str:
        few = f" (n={len(row.values)})" if 0 < len(row.values) < most[_column(experiment, row)] else ""
        return _value(row, unit(experiment, row.metric), failures) + few

    lines: list[Line] = []
    for graph in dict.fromkeys(row.graph for row in found):
        groups = _groups([row for row in found if row.graph == graph], across)
        lines += [line(m[0].name, by, value, m[0].way == PUBLISHED) for by in groups if (m := list(by.values()))]
        for members in sorted(groups, key=lambda by: not next(iter(by.values())).is_ours):
            for name, difference in _differences(next(iter(members.values()))).items():
                below = line(name, members, lambda row, of=difference: _paired_in(experiment, of(row), row), False)
                lines += [below] if set(below.cells[:-1]) != {NONE} else []
        for name, pairs in lines_of(experiment, [row for row in found if row.graph == graph], across):
            rows = {value: one.row for value, one in pairs.items()}
            differences = {id(one.row): one.difference for one in pairs.values()}
            lines.append(
                line(name, rows, lambda row, of=differences: _paired_in(experiment, of[id(row)], row), costs=False)
            )
    return [*(f"{across} {level_name(across, value)}" for value in along), "seeds"], lines


def beside_default(experiment: Experiment, found: Sequence[SummaryRow], failures: dict[str, int]) -> Columns:
    """One variant a row; for every value of the level its score, and the difference to the default."""
    across = experiment.across or "shots"
    along = level_values(experiment, found, across)
    lines = []
    for members in _groups([row for row in found if row.way == PUBLISHED], across):
        cells, seeds = [], 0
        for row in (members.get(value) for value in along):
            form = unit(experiment, row.metric if row else experiment.metric)
            cells += [_value(row, form, failures), _paired(row.less_default, row, form)] if row else [NONE, NONE]
            seeds = max(seeds, row.seeds if row else 0)
        first = next(iter(members.values()))
        lines.append(Line(first.name, list(members.values()), [*cells, str(seeds)]))
    names = [f"{across} {level_name(across, value)}" for value in along]
    return [head for name in names for head in (name, f"{name} − {DEFAULT}")] + ["seeds"], lines


def _groups(rows: Sequence[SummaryRow], across: str) -> list[dict[Any, SummaryRow]]:
    """Rows that differ in the level alone, by its values."""
    groups: dict[tuple[Any, ...], dict[Any, SummaryRow]] = {}
    for row in rows:
        others = [row.level(level) for level in PROTOCOL if level != across]
        groups.setdefault((row.graph, row.nodes, row.name, *others), {})[row.level(across)] = row
    return list(groups.values())


def _differences(row: SummaryRow) -> dict[str, Callable[[SummaryRow], Difference | None]]:
    """The differences that a method has in a table along a level, by their names."""
    if row.way != PUBLISHED or row.method in CONTROLS:
        return {}
    if row.is_ours:
        controls = {"control": lambda row: row.less_control, "of all": lambda row: row.less_all}
        return {f"{row.name} − best {name}": difference for name, difference in controls.items()}
    return {f"{OURS} − {row.name}": lambda row: row.ours_less_best}


def _paired(found: Difference | None, row: SummaryRow, form: Unit) -> str:
    """A difference with its interval, and how many pairs it has where those are fewer than the row's values."""
    few = found is not None and found.interval is not None and len(found.values) < len(row.values)
    return with_interval(found, form) + (f" (n={len(found.values)})" if found and few else "")


def _paired_in(experiment: Experiment, found: Difference | None, row: SummaryRow) -> str:
    return _paired(found, row, unit(experiment, row.metric))


def _column(experiment: Experiment, row: SummaryRow) -> Any:
    """Cells that have as many values as one another, where none is missing."""
    return (row.graph, row.level(experiment.across or "")) if experiment.draws else None


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
