"""The figure of an experiment: curves along its level, or its variants beside the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plgc.experiments.ablated import draw_variants
from plgc.experiments.curves import draw_curves
from plgc.experiments.spec import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_figure(experiment: Experiment, records: Iterable[Mapping[str, Any]]) -> Figure:
    """Draw the records of an experiment that varies a level."""
    draw = draw_variants if "variant" in experiment.levels else draw_curves
    return draw(experiment, records)


def has_figure(experiment: Experiment, records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether there is something to draw along a level."""
    return experiment.across is not None and any("error" not in record for record in records)
