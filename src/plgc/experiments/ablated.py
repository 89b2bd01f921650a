"""Variants of a method as dots: what each has more or less than the default, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plgc.experiments.canvas import new_figure
from plgc.experiments.numbers import Unit, unit
from plgc.experiments.rows import PUBLISHED, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.experiments.styles import AXES
from plgc.experiments.summary import level_values, summarise
from plgc.graphs.catalog import title
from plgc.runtime.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, COLUMNS = 3.6, 3  # inches of a panel; panels side by side
# One for every value of the level, told apart in grey by the marker.
STYLES = (("#d55e00", "o"), ("#0072b2", "s"), ("#009e73", "^"), ("#cc79a7", "D"))


def draw_variants(experiment: Experiment, records: Iterable[Mapping[str, Any]]) -> Figure:
    """One panel per graph; a line for every variant, on it a dot with its interval for every value of the level."""
    across = experiment.across or "shots"
    rows = [row for row in summarise(experiment, records) if row.less_default and row.way == PUBLISHED]
    if not rows:
        raise SettingError(f"there are no variants of {experiment.name} beside a default yet: nothing to draw")
    variants = [v for v in level_values(experiment, rows, "variant") if any(row.level("variant") == v for row in rows)]
    values = [v for v in level_values(experiment, rows, across) if any(row.level(across) == v for row in rows)]
    graphs = list(dict.fromkeys(row.graph for row in rows))
    columns = min(COLUMNS, len(graphs))
    lines = -(-len(graphs) // columns)
    figure = new_figure((WIDTH * columns + 1.2, lines * (0.24 * len(variants) + 0.9) + 0.5))
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for axes, graph in zip(grid, graphs, strict=False):
        own = [row for row in rows if row.graph == graph]
        _draw_panel(axes, own, variants, (across, values), unit(experiment, own[0].metric))
        axes.set_title(title(graph), fontsize=10)
    for axes in grid[len(graphs) :]:
        axes.set_visible(False)
    handles = {name: handle for axes in grid for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        [*handles.values()], [*handles], loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
    )
    return figure


def _draw_panel(
    axes: Axes,
    rows: Sequence[SummaryRow],
    variants: Sequence[str],
    along: tuple[str, Sequence[Any]],
    form: Unit,
) -> None:
    across, values = along
    for number, value in enumerate(values):
        colour, marker = STYLES[number % len(STYLES)]
        points = [
            (variants.index(row.level("variant")), row.less_default) for row in rows if row.level(across) == value
        ]
        found = [(place, less.mean, less.interval or (less.mean, less.mean)) for place, less in points if less]
        if not found:
            continue
        aside = 0.5 * ((number + 0.5) / len(values) - 0.5)
        means = [form.factor * mean for _, mean, _ in found]
        errors = [
            [form.factor * (mean - low) for _, mean, (low, _) in found],
            [form.factor * (high - mean) for _, mean, (_, high) in found],
        ]
        y = [place + aside for place, _, _ in found]
        name = f"{AXES[across]}: {level_name(across, value)}"
        axes.errorbar(
            means,
            y,
            xerr=errors,
            label=name,
            color=colour,
            marker=marker,
            linestyle="none",
            markersize=4,
            elinewidth=0.9,
        )
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(variants)), list(variants))
    axes.set_ylim(len(variants) - 0.5, -0.5)  # the first on top
    axes.set_xlabel(f"{form.name}, less the default", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
