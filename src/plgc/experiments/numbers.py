"""Numbers as tables show them: means with their spread, differences with their interval, each in its metric's unit."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

from plgc.experiments.differences import ONE_SEED, Difference
from plgc.experiments.spec import METRICS, Experiment

NONE = "-"


class Unit(NamedTuple):
    """How a metric is shown: what it is multiplied by, digits, and its name with the unit."""

    factor: float
    digits: int
    name: str


def unit(experiment: Experiment, metric: str) -> Unit:
    """How an experiment shows a metric: in per cent, from 0 to 1, or 100 times that where it stands beside per cent."""
    digits = METRICS.get(metric, 1 if metric.endswith("accuracy") else 3)
    if experiment.factor(metric) > 1:
        return Unit(experiment.factor(metric), 1, f"{metric} × {experiment.factor(metric):g}")
    return Unit(1.0, digits, f"{metric}, %" if digits == 1 else metric)


def mean_std(values: Collection[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n − 1); a single value has none."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def spread(values: Collection[float], form: Unit) -> str:
    """Mean ± standard deviation; of one value, the value."""
    return shown_pair(mean_std(values), form) if values else NONE


def shown_pair(found: Sequence[float | None], form: Unit) -> str:
    """A mean and a standard deviation, where there is one."""
    mean, spread = found
    if mean is None:
        return NONE
    text = f"{form.factor * mean:.{form.digits}f}"
    return text if spread is None else f"{text} ± {form.factor * spread:.{form.digits}f}"


def with_interval(found: Difference | None, form: Unit) -> str:
    """A difference with its interval, or that there is but one seed."""
    if found is None:
        return NONE
    ends = found.interval
    return f"{signed(found.mean, form)} " + (
        f"[{', '.join(signed(end, form) for end in ends)}]" if ends else f"({ONE_SEED})"
    )


def signed(value: float, form: Unit) -> str:
    """A difference."""
    return f"{round(form.factor * value, form.digits) + 0.0:+.{form.digits}f}"  # no negative zero
