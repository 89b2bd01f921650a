"""Differences between methods, paired: on the same seeds and the same label draws, with 95 % intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from plgc.evaluation.claims import student_half

VERDICTS = ("above", "level", "below")  # the interval is above 0, contains it, or is below it
ONE_SEED = "one seed"  # without an interval nothing is said


class Draw(NamedTuple):
    """One of the values that are averaged: its seed, and that of its labels."""

    seed: int
    labels: int


@dataclass(frozen=True)
class Difference:
    """What a method has more than the best of some others, on the same seeds and label draws.

    Attributes:
        other: the one of them with the highest mean on the draws that all of them have.
        values: differences to it, draw by draw.
    """

    other: str
    values: Mapping[Draw, float]

    @property
    def mean(self) -> float:
        """Over all draws."""
        return statistics.fmean(self.values.values())

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %, by Student's t over the means of the seeds: draws of one seed share a condensed graph."""
        by_seed: dict[int, list[float]] = {}
        for draw, value in self.values.items():
            by_seed.setdefault(draw.seed, []).append(value)
        means = [statistics.fmean(values) for values in by_seed.values()]
        half, centre = student_half(means), statistics.fmean(means)
        return None if half is None else (centre - half, centre + half)


def verdict(found: Difference) -> str:
    """The word for a difference, the same everywhere: where its interval lies."""
    ends = found.interval
    if ends is None:
        return ONE_SEED
    return "above" if ends[0] > 0 else "below" if ends[1] < 0 else "level"


def less_best(values: Mapping[Draw, float], others: Mapping[str, Mapping[Draw, float]]) -> Difference | None:
    """The difference to the best of the others; None where there is none, or no draw that all have in common."""
    draws = sorted(set(values).intersection(*others.values()))
    if not others or not draws:
        return None
    # Rounded: of two with the same mean the first is taken, whatever the last bits are.
    means = {name: round(statistics.fmean(found[draw] for draw in draws), 9) for name, found in others.items()}
    best = max(means, key=means.__getitem__)
    return Difference(best, {draw: values[draw] - others[best][draw] for draw in draws})
