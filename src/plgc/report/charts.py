"""Charts as inline SVG: lines, steps and dots with whiskers. Each has a text alternative and its numbers in a table.

Series take the page's colours in turn and differ in their dashes too, so that colour is never the only sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from plgc.report.axes import HEIGHT, LEFT, RIGHT, WIDTH, Frame, axes, figure, nice_ticks, nice_top
from plgc.report.html import Html, join, table, tag
from plgc.report.text import number

T = TypeVar("T")
COLOURS = 8  # --c0 to --c7 of the page
DASHES = ("", "6 3", "2 3", "8 3 2 3")
POINTS = 300  # drawn of one line
ROWS = 40  # shown of one table
SERIES = 8  # in one chart
NAMED = 16  # names under bars


@dataclass(frozen=True)
class Series:
    """A line: its name, its points and, where they are means, their standard deviations."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    colour: int | None = None  # by default its place


def line_chart(
    identity: str,
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    ticks: Sequence[tuple[float, str]] | None = None,
    markers: bool = False,
    start: float | None = None,
) -> Html:
    """Lines over one axis.

    Args:
        identity: unique in the page.
        title: what is shown.
        series: at most :data:`SERIES` are drawn; the table has all.
        x_label, y_label: of the axes.
        ticks: places and names on the x axis, where it has levels.
        markers: draw the points themselves.
        start: let the y axis start here.
    """
    series = [one for one in series if len(one.x)]
    shown = series[:SERIES]
    if not shown:
        return Html("")
    frame = _frame(shown, start)
    parts = [axes(frame, x_label, y_label, ticks)]
    for place, one in enumerate(shown):
        parts.append(_line(frame, one, one.colour if one.colour is not None else place, place, markers))
    words = "; ".join(f"{one.name}: {number(one.y[0])} to {number(one.y[-1])}" for one in shown)
    text = f"{y_label} by {x_label}. {words}."
    legend = None
    if len(shown) > 1:
        legend = tag("ul", *(_key(one, place) for place, one in enumerate(shown)), class_="legend")
    names = dict(ticks or ())
    left = "" if len(shown) == len(series) else f" ({len(shown)} of {len(series)} lines; all are in the numbers)"
    return figure(identity, title + left, text, join(parts), HEIGHT, legend, _line_table(title, series, x_label, names))


def bar_chart(
    identity: str, title: str, values: Sequence[int], *, x_label: str, y_label: str, names: Sequence[str] | None = None
) -> Html:
    """Sizes with their mean as a line: named bars as they come or, without names, one outline, largest first."""
    shown = list(values) if names is not None else sorted(values, reverse=True)
    mean = sum(shown) / len(shown)
    frame = Frame(0, len(shown), 0, nice_top(max(1, *shown)))
    gap = 0.12 if names is not None else 0.0
    path = f"M{frame.x(0):.1f} {frame.y(0):.1f}"
    for place, value in enumerate(shown):
        left, right = frame.x(place + gap), frame.x(place + 1 - gap)
        path += f"H{left:.1f}V{frame.y(value):.1f}H{right:.1f}" + (f"V{frame.y(0):.1f}" if gap else "")
    path += f"V{frame.y(0):.1f}Z"
    ticks = None
    if names is not None:
        ticks = thinned([(place + 0.5, name) for place, name in enumerate(names)], NAMED)
    height = frame.y(mean)
    content = join(
        [
            axes(frame, x_label, y_label, ticks),
            tag("path", d=path, class_="area s0"),
            tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{height:.1f}", y2=f"{height:.1f}", class_="mean"),
            tag("text", f"mean {number(mean)}", x=WIDTH - RIGHT, y=f"{height - 5:.1f}", class_="end"),
        ]
    )
    text = f"{len(shown)} values from {max(shown)} down to {min(shown)}, mean {number(mean)}."
    called = names if names is not None else [str(place + 1) for place in range(len(shown))]
    rows = thinned(list(zip(called, shown, strict=True)))
    head = ["" if names is not None else "rank", y_label]
    return figure(identity, title, text, content, HEIGHT, None, table(head, rows, title))


def dot_chart(
    identity: str, title: str, rows: Sequence[tuple[str, float, float | None, bool]], *, unit: str, digits: int
) -> Html:
    """A value a row as a dot with a whisker of one standard deviation; ours are marked.

    Args:
        identity: unique in the page.
        title: what is shown.
        rows: name, mean, standard deviation (None of a single value), whether it is ours.
        unit: of the values.
        digits: after the point.
    """
    left, right, row_height = 160.0, 100.0, 30.0
    low = min(mean - (deviation or 0) for _, mean, deviation, _ in rows)
    high = max(mean + (deviation or 0) for _, mean, deviation, _ in rows)
    margin = max((high - low) * 0.12, 10.0**-digits * 5)
    low, high = low - margin, high + margin
    height = row_height * len(rows) + 30

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - right)

    parts = []
    for tick in nice_ticks(low, high, 4):
        x = f"{place(tick):.1f}"
        parts.append(tag("line", x1=x, x2=x, y1=4, y2=height - 24, class_="grid"))
        parts.append(tag("text", number(tick), x=x, y=height - 8, class_="mid"))
    for index, (name, mean, deviation, ours) in enumerate(rows):
        y = row_height * (index + 0.5) + 4
        kind = "ours" if ours else "other"
        parts.append(tag("text", name, x=left - 12, y=f"{y + 4:.1f}", class_=f"end name {kind}"))
        if deviation:
            ends = {"x1": f"{place(mean - deviation):.1f}", "x2": f"{place(mean + deviation):.1f}"}
            parts.append(tag("line", **ends, y1=f"{y:.1f}", y2=f"{y:.1f}", class_=f"whisker {kind}"))
        parts.append(tag("circle", cx=f"{place(mean):.1f}", cy=f"{y:.1f}", r=6 if ours else 4.5, class_=f"dot {kind}"))
        shown = spread_text(mean, deviation, digits)
        parts.append(tag("text", shown, x=WIDTH - right + 12, y=f"{y + 4:.1f}", class_=f"name {kind}"))
    words = "; ".join(f"{name} {spread_text(mean, deviation, digits)}" for name, mean, deviation, _ in rows)
    numbers = [[name, spread_text(mean, deviation, max(digits, 2))] for name, mean, deviation, _ in rows]
    return figure(identity, title, f"{unit}: {words}.", join(parts), height, None, table(["", unit], numbers, title))


def spread_text(mean: float, deviation: float | None, digits: int) -> str:
    """Mean ± deviation, as dots are labelled."""
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def thinned(values: Sequence[T], most: int = ROWS) -> list[T]:
    """At most so many of the values, evenly, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def _frame(series: Sequence[Series], start: float | None) -> Frame:
    x = [value for one in series for value in one.x]
    low = [y - s for one in series for y, s in zip(one.y, one.spread or [0.0] * len(one.y), strict=True)]
    high = [y + s for one in series for y, s in zip(one.y, one.spread or [0.0] * len(one.y), strict=True)]
    bottom, top = min(low), max(high)
    margin = (top - bottom) * 0.06 or abs(top) * 0.05 or 1.0
    return Frame(min(x), max(x), bottom - margin if start is None else min(start, bottom), top + margin)


def _line(frame: Frame, one: Series, colour: int, place: int, markers: bool) -> Html:
    points = thinned(list(zip(one.x, one.y, strict=True)), POINTS)
    path = "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points)
    dash = DASHES[(place // COLOURS + place) % len(DASHES)] if place else None
    parts = [tag("path", d=f"M{path}", class_=f"line s{colour % COLOURS}", stroke_dasharray=dash or None)]
    for x, y, deviation in zip(one.x, one.y, one.spread or [0.0] * len(one.y), strict=True):
        if deviation:
            ends = {"y1": f"{frame.y(y - deviation):.1f}", "y2": f"{frame.y(y + deviation):.1f}"}
            across = f"{frame.x(x):.1f}"
            parts.append(tag("line", x1=across, x2=across, **ends, class_=f"error s{colour % COLOURS}"))
    if markers or len(points) == 1:
        for x, y in points:
            parts.append(
                tag("circle", cx=f"{frame.x(x):.1f}", cy=f"{frame.y(y):.1f}", r=3.2, class_=f"s{colour % COLOURS}")
            )
    return join(parts)


def _key(one: Series, place: int) -> Html:
    colour = (one.colour if one.colour is not None else place) % COLOURS
    dash = DASHES[(place // COLOURS + place) % len(DASHES)] if place else None
    stroke = tag("line", x1=0, x2=26, y1=6, y2=6, class_=f"line s{colour}", stroke_dasharray=dash or None)
    return tag("li", tag("svg", stroke, viewBox="0 0 26 12", width=26, height=12, aria_hidden="true"), one.name)


def _line_table(title: str, series: Sequence[Series], x_label: str, names: dict[float, str]) -> Html:
    places = sorted({x for one in series for x in one.x})
    found = [dict(zip(one.x, zip(one.y, one.spread or [0.0] * len(one.y), strict=True), strict=True)) for one in series]
    rows = []
    for x in thinned(places):
        cells = [_cell(values.get(x)) for values in found]
        rows.append([names.get(x, number(x, 6)), *cells])
    return table([x_label, *(one.name for one in series)], rows, title)


def _cell(pair: tuple[float, float] | None) -> str:
    if pair is None:
        return ""
    return f"{number(pair[0], 4)} ± {number(pair[1], 2)}" if pair[1] else number(pair[0], 4)
