"""Sentences from differences: where ours is above, level and below, by the rule of ``verdict``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from plgc.experiments.differences import ONE_SEED, VERDICTS, Difference, less_best, verdict
from plgc.experiments.levels import NAMES
from plgc.experiments.numbers import Unit, signed, unit, with_interval
from plgc.experiments.rows import ALONE, ANY, OURS, PARTS, PUBLISHED, WAYS, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.graphs.catalog import title
from plgc.rivals.methods import METHODS

MAIN = ("cora", "citeseer")  # the graphs on which every rival was run: what is not above is listed cell by cell


class Compared(NamedTuple):
    """A difference, where it was measured, and how it is shown."""

    where: str
    found: Difference
    form: Unit


class Results(NamedTuple):
    """An experiment, its records, and the rows of its summary that have values."""

    experiment: Experiment
    records: list[dict[str, Any]]
    rows: list[SummaryRow]

    def ours(self, way: str = PUBLISHED, preset: str = "default") -> list[SummaryRow]:
        """The rows of our method."""
        return [row for row in self.rows if row.is_ours and (row.way, row.preset) == (way, preset)]

    def compared(
        self,
        rows: Iterable[SummaryRow],
        difference: Callable[[SummaryRow], Difference | None],
        known: Collection[str] = (),
    ) -> list[Compared]:
        """A difference of these rows, where they have it; ``known`` is what the sentence says of the place already."""
        return [
            Compared(self.where(row, known), found, unit(self.experiment, row.metric))
            for row in rows
            if (found := difference(row)) is not None
        ]

    def where(self, row: SummaryRow, known: Collection[str] = ()) -> str:
        """The graph, the size where a graph has several, and the values of levels that vary."""
        words = [] if "graph" in known else [title(row.graph)]
        if row.nodes is not None and len({r.nodes for r in self.rows if r.graph == row.graph} - {None}) > 1:
            words.append(f"{row.nodes} nodes")
        for level in self.experiment.levels:
            varies = len({other.level(level) for other in self.rows}) > 1
            if varies and level not in known and not (row.level(level) is None and level in ANY):
                words.append(level_words(level, row.level(level)))
        return " ".join(words)


def level_words(level: str, value: Any) -> str:
    """A level's value in a sentence."""
    if level == "shots":
        return "all labels" if value is None else f"{value}-shot"
    return level_name(level, value) if level in NAMES or level == "variant" else f"{level} {level_name(level, value)}"


def every_place(found: Sequence[Compared]) -> str:
    """All differences with their places, by verdict: for a few that matter each."""
    parts = []
    for word in VERDICTS:
        own = [one for one in found if verdict(one.found) == word]
        parts += [f"{word} on {_listed(own)}"] if own else []
    return "; ".join([*parts, *_one_seed(found)])


def not_above(found: Sequence[Compared]) -> str:
    """How often ours is above, and every place where it is not."""
    own = {word: [one for one in found if verdict(one.found) == word] for word in (*VERDICTS, ONE_SEED)}
    above = len(own["above"])
    parts = [f"above in {'all ' if above == len(found) else ''}{above}" + f" of {len(found)}" * (above < len(found))]
    parts += [f"{word}: {_listed(own[word])}" for word in ("level", "below") if own[word]]
    return "; ".join([*([] if len(own[ONE_SEED]) == len(found) else parts), *_one_seed(found)])


def _one_seed(found: Sequence[Compared]) -> list[str]:
    """Of differences without an interval, how many there are and which are negative."""
    own = [one for one in found if verdict(one.found) == ONE_SEED]
    behind = [f"{one.where} {signed(one.found.mean, one.form)}" for one in own if one.found.mean < 0]
    if not own:
        return []
    return [
        f"{ONE_SEED}, no interval: {len(own)}, of which {len(behind)} negative"
        + f" ({', '.join(behind)})" * bool(behind)
    ]


def counts(found: Sequence[Compared]) -> str:
    """How often ours is above, level and below."""
    own = [verdict(one.found) for one in found]
    return ", ".join(f"{word} in {own.count(word)}" for word in (*VERDICTS, ONE_SEED) if word in own)


def _listed(found: Sequence[Compared]) -> str:
    return ", ".join(f"{one.where} {with_interval(one.found, one.form)}".strip() for one in found)


def rivals(results: Results) -> list[str]:
    """A line for every method that condenses, or trains on the whole graph: ours less it, in every way of scoring.

    On :data:`MAIN` every cell that is not above is named; on the other graphs they are counted.
    """
    lines = []
    for method in dict.fromkeys(row.method for row in results.rows if is_rival(row.method)):
        own = [row for row in results.rows if row.method == method]
        parts = []
        for name, of in ways(results).items():
            near = results.compared([row for row in own if row.graph in MAIN], of)
            far = results.compared([row for row in own if row.graph not in MAIN], of)
            words = [not_above(near)] if near else []
            words += [f"on other graphs {counts(far)} of {len(far)}"] if far else []
            parts += [f"*{name}* {'; '.join(words)}"] if words else []
        if parts:
            lines.append(f"- `{method}`: {'. '.join(parts)}.")
    return lines


def is_rival(method: str) -> bool:
    """Whether it is a method of others that condenses, or one that is trained on the whole graph."""
    known = METHODS[method]
    return method != OURS and (known.condenses or known.supervised)


def ways(results: Results) -> dict[str, Callable[[SummaryRow], Difference | None]]:
    """What ours is compared with, by way of scoring. Link prediction has our pair head alone, whoever condensed."""

    def like(way: str) -> Callable[[SummaryRow], Difference | None]:
        return lambda row: row.ours_less if row.way == way else None

    if results.experiment.task != "link":
        return {name: like(way) for way, name in WAYS.items()}
    ours = {(row.graph, row.nodes): row for row in results.ours(ALONE)}

    def alone(row: SummaryRow) -> Difference | None:
        own = ours.get((row.graph, row.nodes))
        return less_best(own.values, {row.name: row.values}) if own and row.way == PUBLISHED else None

    return {"ours as shipped": like(PUBLISHED), WAYS[ALONE]: alone, WAYS[PARTS]: like(PARTS)}
