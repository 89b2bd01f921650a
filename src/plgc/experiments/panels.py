"""Which rows share a panel of a figure: one panel for every graph, size, protocol and way of scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.compare import covers
from plgc.experiments.rows import ALONE, OWN_WAYS, PROTOCOL, PUBLISHED, WAYS, SummaryRow, level_name, way_name
from plgc.graphs.catalog import title
from plgc.rivals.methods import METHODS

LINES = "history"  # files of one graph that came about in different ways are lines of one panel


@dataclass(frozen=True)
class Panel:
    """A title and its rows."""

    title: str
    rows: tuple[SummaryRow, ...]


def panels(rows: Sequence[SummaryRow], across: str) -> list[list[Panel]]:
    """The panels of an experiment along a level; those that differ in the way of scoring alone are in one list.

    A method without a size, or without a value of a level that does not affect it, is in every panel of its graph.
    """
    keys = list(dict.fromkeys((row.graph, row.nodes, _rest(row, across)) for row in rows))
    special = [key for key in keys if not any(other != key and _holds_for(key, other) for other in keys)]
    found = []
    for graph, nodes, rest in special:
        members = [r for r in rows if _holds_for((r.graph, r.nodes, _rest(r, across)), (graph, nodes, rest))]
        near = [other for name, _, other in special if name == graph]
        apart = [
            f"{level} {level_name(level, value)}"
            for place, (level, value) in enumerate(zip(PROTOCOL, rest, strict=True))
            if len({other[place] for other in near}) > 1
        ]
        name = ", ".join([title(graph), *([] if nodes is None else [f"{nodes} nodes"]), *apart])
        ways = [way for way in WAYS if any(row.way == way and not METHODS[row.method].presets for row in members)]
        ours = any(row.level(LINES) is not None and row.way == ALONE for row in members)
        if ours:
            ways = [PUBLISHED, ALONE]  # the learned part alone tells whether a file is worth anything
        ways = ways if len(ways) > 1 else [PUBLISHED]
        words = OWN_WAYS if ours else {way: way_name(way, members[0].task) for way in ways}
        titles = {way: f"{name}: {words[way]}" if len(ways) > 1 else name for way in ways}
        found.append([Panel(titles[way], tuple(row for row in members if _scored(row, way))) for way in ways])
    return found


def _rest(row: SummaryRow, across: str) -> tuple[Any, ...]:
    """The protocol without the level that the panel varies, and without what its lines are."""
    return tuple(None if name in (across, LINES) else value for name, value in zip(PROTOCOL, row.protocol, strict=True))


def _holds_for(general: tuple[Any, ...], special: tuple[Any, ...]) -> bool:
    graph, nodes, rest = general
    return graph == special[0] and nodes in (special[1], None) and covers(rest, special[2])


def _scored(row: SummaryRow, way: str) -> bool:
    """Whether a row belongs to a way of scoring; the controls and, but for our head alone, ours have one for all."""
    if row.method in CONTROLS:
        return True
    if METHODS[row.method].presets:
        return row.way == (ALONE if way == ALONE else PUBLISHED)
    return row.way == way
