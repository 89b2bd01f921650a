"""Files of one graph that came about in different ways, side by side: how far one is below another.

Every "within so many points" is checked twice: as shipped, and with the head on the learned part alone, because the
head also sees the plain features and could hide a file that knows nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plgc.experiments.differences import Difference, less_best
from plgc.experiments.levels import PRIVATE
from plgc.experiments.numbers import signed, unit
from plgc.experiments.rows import ALONE, OWN_WAYS, PROTOCOL, SummaryRow
from plgc.experiments.spec import Experiment, Within


@dataclass(frozen=True)
class Compared:
    """One comparison: what was asked, the row that was compared, and its difference to the other."""

    within: Within
    row: SummaryRow
    difference: Difference

    @property
    def holds(self) -> bool:
        """Whether the mean is at most so many points below the other's."""
        return self.difference.mean >= -self.within.points

    @property
    def name(self) -> str:
        """What a table calls it."""
        alone = f", {OWN_WAYS[ALONE]}" if self.row.way == ALONE else ""
        return f"{self.within.history} − {self.within.of}{alone}"


def compared(experiment: Experiment, rows: Sequence[SummaryRow]) -> Iterator[Compared]:
    """Every comparison that the experiment asks for and that has values, in both ways of scoring."""
    place = PROTOCOL.index("history")
    known = {_key(row): row for row in rows if row.values}
    for within in experiment.within:
        for row in known.values():
            if row.level("history") != within.history or row.way not in OWN_WAYS:
                continue
            other = (*row.protocol[:place], within.of, *row.protocol[place + 1 :])
            base = known.get(_key(row, other))
            found = None if base is None else less_best(row.values, {within.of: base.values})
            if found is not None:
                yield Compared(within, row, found)


def within_notes(experiment: Experiment, rows: Sequence[SummaryRow]) -> Iterator[str]:
    """A sentence for every comparison and way of scoring: in how many cells it holds, the mean and the worst.

    Points are of the experiment's own metric: of others nothing is said.
    """
    groups: dict[tuple[Within, str, bool], list[Compared]] = {}
    own = [row for row in rows if row.metric == experiment.metric_of(row.graph)]
    for found in compared(experiment, own):
        private = found.row.level("release") == PRIVATE
        groups.setdefault((found.within, found.row.way, private), []).append(found)
    for (within, way, private), members in groups.items():
        means = [one.difference.mean for one in members]
        form = unit(experiment, members[0].row.metric)
        files = ", private files" if private else ""
        asked = f"{within.history} within {within.points:g} of {within.of}, {OWN_WAYS[way]}{files}"
        reached = f"in {sum(one.holds for one in members)} of {len(members)} cell(s)"
        mean, worst = signed(statistics.fmean(means), form), signed(min(means), form)
        yield f"{asked}: {reached}, {mean} on average, {worst} at worst"


def lines_of(
    experiment: Experiment, rows: Sequence[SummaryRow], across: str
) -> Iterator[tuple[str, Mapping[object, Compared]]]:
    """The comparisons as lines of a table along a level: a name, and a comparison for every value of the level."""
    groups: dict[tuple[object, ...], dict[object, Compared]] = {}
    for found in compared(experiment, rows):
        rest = (found.row.level(level) for level in PROTOCOL if level not in (across, "history"))
        key = (found.row.nodes, found.name, *rest)
        groups.setdefault(key, {})[found.row.level(across)] = found
    for key, members in groups.items():
        yield str(key[1]), members


def _key(row: SummaryRow, protocol: tuple[object, ...] | None = None) -> tuple[object, ...]:
    return row.graph, row.nodes, row.preset, row.method, row.way, protocol or row.protocol
