"""Records as curves, for experiments that vary a level: one panel per graph, one line per method."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.levels import NAMES
from plgc.experiments.numbers import Unit, mean_std, unit
from plgc.experiments.spec import Experiment
from plgc.experiments.summary import ANY, PROTOCOL, SummaryRow, level_name, level_values, summarise
from plgc.graphs.catalog import title
from plgc.runtime.errors import MissingExtraError, SettingError
from plgc.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {
    "shots": "labels per class",
    "noise": "share of wrong labels",
    "imbalance": "labels of the largest class to one of the smallest",
    "backbone": "kind of GNN",
    "partition": "how the graph is cut",
    "sources": "whose files",
    "combine": "how sources are combined",
    "release": "what is handed over",
}
# Okabe and Ito's colours, which the colour-blind can tell apart, each with a marker of its own.
STYLES: dict[str, dict[str, Any]] = {
    "plgc": {"color": "#d55e00", "marker": "o"},
    "ssl": {"color": "#0072b2", "marker": "s"},
    "random": {"color": "#56b4e9", "marker": "v"},
    "herding": {"color": "#009e73", "marker": "^"},
    "herding-labelfree": {"color": "#009e73", "marker": "^", "linestyle": "--"},
    "kcenter": {"color": "#cc79a7", "marker": "D"},
    "kcenter-labelfree": {"color": "#cc79a7", "marker": "D", "linestyle": "--"},
    "coarsening": {"color": "#e69f00", "marker": "P"},
    "ctgc": {"color": "#117733", "marker": "s"},
    "gecc": {"color": "#882255", "marker": "o"},
    "cgc-x": {"color": "#882255", "marker": "o", "linestyle": "--"},
    "gcdm-x": {"color": "#999933", "marker": "<"},
    "dc-graph": {"color": "#aa7744", "marker": ">"},
    "gcond-x": {"color": "#332288", "marker": "d"},
    "gcond": {"color": "#332288", "marker": "d", "linestyle": "--"},
    "sfgc": {"color": "#661100", "marker": "X"},
    "geom": {"color": "#661100", "marker": "X", "linestyle": "--"},
    "whole": {"color": "black", "marker": "x"},
    "whole_mlp": {"color": "black", "marker": "+", "linestyle": "--"},
    "propagated_features": {"color": "0.45", "marker": ".", "linestyle": "--"},
    "random_encoder": {"color": "0.65", "marker": ".", "linestyle": (0, (1, 1.5))},
    "raw_features": {"color": "0.65", "marker": "1", "linestyle": "-."},
    "plain_parts": {"color": "0.45", "marker": "2"},
}
OTHER = {"color": "#dd5566", "marker": "*"}
OURS, WIDTH, COLUMNS = "plgc", 3.6, 3  # inches of a panel; panels side by side
Panel = tuple[str, int | None, tuple[Any, ...]]


def draw_curves(experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str | None = None) -> Figure:
    """Draw the metric over the experiment's level: ours with a band of one standard deviation, the others with bars.

    Methods without a size are in every panel of their graph. Graphs without records have no panel.

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
    panels = _panels(rows, across)
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure((WIDTH * columns, 2.9 * lines + 0.8))
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    values = level_values(experiment, rows, across)
    for axes, (panel, members) in zip(grid, panels.items(), strict=False):
        form = unit(experiment, members[0].metric)
        _draw_panel(axes, members, across, values, form)
        axes.set_title(_panel_title(panel, panels, across), fontsize=10)
        axes.set_ylabel(form.name, fontsize=9)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles = {name: handle for axes in grid for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = sorted(handles, key=_legend_place)
    shape: dict[str, Any] = {"ncols": min(5, 2 * columns), "fontsize": 8, "frameon": False}
    figure.legend([handles[name] for name in names], names, loc="outside lower center", **shape)
    return figure


def save_svg(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as SVG, whole or not at all; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "plgc", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return write_atomically(path, buffer.getvalue())


def new_figure(inches: tuple[float, float]) -> Figure:
    """An empty figure outside pyplot: nothing to close, no display needed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'plgc[figures]'") from error
    return Figure(figsize=inches, layout="constrained")


def _panels(rows: Sequence[SummaryRow], across: str) -> dict[Panel, list[SummaryRow]]:
    """Rows by graph, size and the rest of the protocol; those without a size go to every size of their graph."""

    def rest(row: SummaryRow) -> tuple[Any, ...]:
        return tuple(v for name, v in zip(PROTOCOL, row.protocol, strict=True) if name != across)

    keys = list(dict.fromkeys((row.graph, row.nodes, rest(row)) for row in rows))
    sized = {(graph, others) for graph, nodes, others in keys if nodes is not None}
    keys = [key for key in keys if key[1] is not None or (key[0], key[2]) not in sized]
    return {
        (graph, nodes, others): [
            row for row in rows if (row.graph, rest(row)) == (graph, others) and row.nodes in (nodes, None)
        ]
        for graph, nodes, others in keys
    }


def _panel_title(panel: Panel, panels: Iterable[Panel], across: str) -> str:
    """The graph and its size, and what else tells its panels apart."""
    graph, nodes, others = panel
    names = [name for name in PROTOCOL if name != across]
    near = [other for name, _, other in panels if name == graph]
    apart = [f"{name} {level_name(name, others[i])}" for i, name in enumerate(names) if len({o[i] for o in near}) > 1]
    return ", ".join([title(graph), *([] if nodes is None else [f"{nodes} nodes"]), *apart])


def _legend_place(name: str) -> tuple[int, str]:
    method = name.split(" ")[0]
    return (list(STYLES).index(method) if method in STYLES else len(STYLES)), name


def _draw_panel(axes: Axes, rows: Sequence[SummaryRow], across: str, values: Sequence[Any], form: Unit) -> None:
    values = [value for value in values if any(row.level(across) == value for row in rows)]
    if across in ANY and len(values) > 1:
        values = [value for value in values if value is not None]
    numeric = across == "noise"  # the others grow by factors, or are names: they are set at equal distances
    places = {value: value if numeric and value is not None else place for place, value in enumerate(values)}
    lines: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        lines.setdefault((row.method, row.name), []).append(row)
    joined = across not in NAMES  # names have no order: their points are side by side
    for number, ((method, name), members) in enumerate(lines.items()):
        aside = 0.0 if joined else 0.7 * ((number + 0.5) / len(lines) - 0.5)
        points = [
            (place + aside, mean_std([form.factor * value for value in row.values.values()]))
            for value, place in places.items()
            for row in members
            if row.level(across) in (value, None if across in ANY else value)  # a row without a value holds for all
        ]
        x, spreads = zip(*sorted(points), strict=True)
        _draw_line(axes, method, name, x, spreads, joined)
    axes.set_xticks([places[value] for value in values], [level_name(across, value) for value in values])
    axes.set_xlabel(AXES[across], fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_line(
    axes: Axes,
    method: str,
    name: str,
    x: Sequence[float],
    spreads: Sequence[tuple[float, float | None]],
    joined: bool,
) -> None:
    style = {"linestyle": "-", **STYLES.get(method, OTHER)}
    other_preset = name != method
    if other_preset:
        style["linestyle"] = "--"
    if not joined:
        style["linestyle"] = "none"
    means, widths = [mean for mean, _ in spreads], [std or 0.0 for _, std in spreads]
    if method == OURS:
        style |= {"linewidth": 1.6 if other_preset else 2.6, "markersize": 5.5, "zorder": 5}
        style["markerfacecolor"] = "white" if other_preset else style["color"]
        if joined:
            low, high = ([m + side * w for m, w in zip(means, widths, strict=True)] for side in (-1, 1))
            axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0, zorder=1)
            axes.plot(x, means, label=name, **style)
            return
    else:
        style |= {"linewidth": 1.2, "markersize": 4, "zorder": 2 if method in CONTROLS else 3}
    axes.errorbar(x, means, yerr=widths, label=name, capsize=2, elinewidth=0.7, **style)
