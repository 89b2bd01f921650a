"""Every difference between the rows of a summary: to the controls, to a default, and of ours to every other method.

All are paired: taken on the seeds and label draws that both have (:mod:`plgc.experiments.differences`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.differences import less_best
from plgc.experiments.rows import ALONE, ANY, PROTOCOL, PUBLISHED, SummaryRow

DEFAULT = "default"
VARIED = ("variant", "release")  # levels whose other values are compared with the one of that name


def compare(rows: Collection[SummaryRow], against: Collection[str]) -> None:
    """Fill in the differences of all rows; a row without values is not compared with."""
    graphs: dict[str, list[SummaryRow]] = {}
    for row in rows:
        if row.values:
            graphs.setdefault(row.graph, []).append(row)
    for near in graphs.values():
        for row in near:
            _to_references(row, near, against)
            _to_default(row, near)
            if not row.is_ours:
                _from_ours(row, near)


def _to_references(row: SummaryRow, near: Sequence[SummaryRow], against: Collection[str]) -> None:
    """The differences to the best control and to the best of all references."""
    everything = (*CONTROLS, *against)
    if row.method in everything and row.way == PUBLISHED:
        return
    others = {
        other.method: other.values
        for other in near
        if other.method in everything and other.way == PUBLISHED and covers(other.protocol, row.protocol)
    }
    row.less_control = less_best(row.values, {name: values for name, values in others.items() if name in CONTROLS})
    row.less_all = less_best(row.values, others) if against and row.method not in against else None


def _to_default(row: SummaryRow, near: Sequence[SummaryRow]) -> None:
    """The difference of a variant, or of another release, to the default, all else equal."""
    for level in VARIED:
        if row.level(level) in (None, DEFAULT):
            continue
        place = PROTOCOL.index(level)
        same = _key(row)[:-1], (*row.protocol[:place], DEFAULT, *row.protocol[place + 1 :]), row.way
        default = [other.values for other in near if (_key(other)[:-1], other.protocol, other.way) == same]
        row.less_default = less_best(row.values, {DEFAULT: default[0]} if default else {})


def _from_ours(row: SummaryRow, near: Sequence[SummaryRow]) -> None:
    """What ours has more than a row: our learned part alone where the row has our head alone, else ours as shipped."""
    alike = ours_beside(row, near, ALONE if row.way == ALONE else PUBLISHED)
    row.ours_less = less_best(alike.values, {row.name: row.values}) if alike else None
    if row.way == PUBLISHED and alike:
        ways = {other.way: other.values for other in near if _key(other) == _key(row)}
        row.ours_less_best = less_best(alike.values, ways)


def _key(row: SummaryRow) -> tuple[Any, ...]:
    return row.method, row.nodes, row.preset, row.protocol


def ours_beside(row: SummaryRow, near: Sequence[SummaryRow], way: str) -> SummaryRow | None:
    """Our default in a way of scoring, at the row's size and protocol; None where there is none, or no single one.

    A method without a size is compared with ours at its largest.
    """
    found = [
        other
        for other in near
        if other.is_ours
        and (other.way, other.preset) == (way, DEFAULT)
        and (row.nodes is None or other.nodes == row.nodes)
        and (covers(other.protocol, row.protocol) or covers(row.protocol, other.protocol))
    ]
    largest = max((other.nodes or 0 for other in found), default=0)
    found = [other for other in found if (other.nodes or 0) == largest]
    return found[0] if len(found) == 1 else None


def covers(general: tuple[Any, ...], special: tuple[Any, ...]) -> bool:
    """Whether results under one protocol hold for the other, too."""
    return all(
        ours == theirs or (name in ANY and ours is None)
        for name, ours, theirs in zip(PROTOCOL, general, special, strict=True)
    )
