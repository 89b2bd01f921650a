"""Records as curves, for experiments that vary a level: one panel per graph and way of scoring, one line per method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.canvas import new_figure
from plgc.experiments.end_labels import label_ends
from plgc.experiments.levels import NAMES
from plgc.experiments.numbers import Unit, mean_std, unit
from plgc.experiments.panels import LINES, Panel, panels
from plgc.experiments.rows import ANY, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.experiments.styles import AXES, ORDER, line_style
from plgc.experiments.summary import level_values, summarise
from plgc.runtime.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, COLUMNS = 4.4, 2.9, 3  # inches of a panel; panels side by side
INNER = 0.8  # the part of a panel's height that curves have
Point = tuple[float, tuple[float, float | None]]  # where, and the mean with its standard deviation


def draw_curves(experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str | None = None) -> Figure:
    """Draw the metric over the experiment's level: ours with a band of one standard deviation, the others with bars.

    Where methods were scored in several ways, a graph has a row of panels, one for each. Graphs without records have
    no panel.

    Args:
        experiment: one with ``across``.
        records: as :func:`plgc.experiments.records.read_records` returns them.
        metric: what to draw; by default each graph's own.
    """
    across = experiment.across
    if across is None:
        raise SettingError(f"{experiment.name} varies no level: there is no curve to draw, only a table")
    rows = [row for row in summarise(experiment, records, metric) if row.values]
    if not rows:
        raise SettingError(f"there are no results of {experiment.name} yet: nothing to draw")
    grid = _arranged(panels(rows, across))
    columns = max(map(len, grid))
    figure = new_figure((WIDTH * columns, HEIGHT * len(grid) + 0.8))
    values = level_values(experiment, rows, across)
    drawn = figure.subplots(len(grid), columns, squeeze=False)
    handles: dict[str, Any] = {}
    for line, places in zip(grid, drawn, strict=True):
        for axes, panel in zip(places, line, strict=False):
            _draw_panel(axes, panel, across, values, unit(experiment, panel.rows[0].metric))
            handles |= {name: handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
        for axes in places[len(line) :]:
            axes.set_visible(False)
    names = sorted(handles, key=_legend_place)
    shape: dict[str, Any] = {"ncols": min(5, 2 * columns), "fontsize": 8, "frameon": False}
    figure.legend([handles[name] for name in names], names, loc="outside lower center", **shape)
    return figure


def _arranged(groups: list[list[Panel]]) -> list[list[Panel]]:
    """The panels in lines: a line for every group, or several groups of one panel side by side."""
    if any(len(group) > 1 for group in groups):
        return groups
    alone = [panel for group in groups for panel in group]
    return [alone[first : first + COLUMNS] for first in range(0, len(alone), COLUMNS)]


def _legend_place(name: str) -> tuple[int, str]:
    method = name.split(" ")[0]
    return (ORDER.index(method) if method in ORDER else len(ORDER)), name


def _draw_panel(axes: Axes, panel: Panel, across: str, values: Sequence[Any], form: Unit) -> None:
    values = [value for value in values if any(row.level(across) == value for row in panel.rows)]
    if across in ANY and len(values) > 1:
        values = [value for value in values if value is not None]
    numeric = across == "noise"  # the others grow by factors, or are names: they are set at equal distances
    places = {value: value if numeric and value is not None else place for place, value in enumerate(values)}
    lines: dict[str, list[SummaryRow]] = {}
    for row in panel.rows:
        lines.setdefault(_line_name(row, across), []).append(row)
    joined = across not in NAMES  # names have no order: their points are side by side
    ends, colours = {}, {}
    for number, (name, members) in enumerate(lines.items()):
        aside = 0.0 if joined else 0.7 * ((number + 0.5) / len(lines) - 0.5)
        points = sorted(_points(members, across, places, aside, form))
        style = _style(members[0], across)
        _draw_line(axes, members[0], name, points, joined, style)
        ends[name], colours[name] = (points[-1][0], points[-1][1][0]), style["color"]
    label_ends(axes, ends, colours, INNER * HEIGHT)
    axes.set_xticks([places[value] for value in values], [level_name(across, value) for value in values])
    axes.set_xlabel(AXES[across], fontsize=9)
    axes.set_ylabel(form.name, fontsize=9)
    axes.set_title(panel.title, fontsize=10)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _points(
    members: Sequence[SummaryRow], across: str, places: Mapping[Any, float], aside: float, form: Unit
) -> Iterable[Point]:
    """Where a method's points are; a row without a value of the level holds for all of them."""
    for value, place in places.items():
        for row in members:
            if row.level(across) in (value, None if across in ANY else value):
                yield place + aside, mean_std([form.factor * value for value in row.values.values()])


def _line_name(row: SummaryRow, across: str) -> str:
    """The method or, of files of one graph that came about in different ways, which of them."""
    own = None if across == LINES else row.level(LINES)
    return row.method_name if own is None else own


def _style(row: SummaryRow, across: str) -> dict[str, Any]:
    name = _line_name(row, across)
    return line_style(row.method if name == row.method_name else name, row.method_name != row.method)


def _draw_line(
    axes: Axes, row: SummaryRow, name: str, points: Sequence[Point], joined: bool, style: dict[str, Any]
) -> None:
    other_preset = row.method_name != row.method
    if not joined:
        style["linestyle"] = "none"
    x = [place for place, _ in points]
    means, widths = [mean for _, (mean, _) in points], [std or 0.0 for _, (_, std) in points]
    if row.is_ours:
        style |= {"linewidth": 1.6 if other_preset else 2.6, "markersize": 5.5, "zorder": 5}
        if joined:
            low, high = ([m + side * w for m, w in zip(means, widths, strict=True)] for side in (-1, 1))
            axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0, zorder=1)
            axes.plot(x, means, label=name, **style)
            return
    else:
        style |= {"linewidth": 1.2, "markersize": 5, "zorder": 2 if row.method in CONTROLS else 3}
    axes.errorbar(x, means, yerr=widths, label=name, capsize=2, elinewidth=0.7, **style)
