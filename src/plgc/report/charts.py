"""Charts as data: lines, bars, cells, and dots with whiskers, each with a text alternative and its numbers as a table.

``page/charts.html`` draws them as SVG. Series take the page's colours in turn and differ in their dashes too, so that
colour is never the only difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from plgc.report.formatting import number, spread
from plgc.report.scales import Frame, nice_ticks, nice_top

T = TypeVar("T")
POINTS = 300  # drawn of one line
ROWS = 40  # shown of one table
SERIES = 8  # in one chart
NAMED = 16  # names under bars
ROW_HEIGHT = 30.0  # of a dot chart
CELL, NAME = 26.0, 18  # of a cell chart: the height of a row, and the characters of its name


@dataclass(frozen=True)
class NumberTable:
    """A table for the page: its first ``text_columns`` columns are text, the others numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    text_columns: int = 1


@dataclass(frozen=True)
class Series:
    """A line: its name, its points and, where they are means, their standard deviations."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    deviations: Sequence[float] | None = None
    colour: int | None = None  # by default its position

    @property
    def points(self) -> list[tuple[float, float, float]]:
        """x, y and standard deviation (0 for none) of every point."""
        return list(zip(self.x, self.y, self.deviations or [0.0] * len(self.y), strict=True))

    @property
    def drawn(self) -> list[tuple[float, float, float]]:
        """The points that the line is drawn through."""
        return thinned(self.points, POINTS)


@dataclass(frozen=True)
class Chart:
    """A chart for the page.

    Attributes:
        kind: ``lines``, ``bars``, ``dots`` or ``cells``.
        id: unique in the page.
        title: what is shown.
        description: the text alternative.
        numbers: the same as a table.
        frame: where values are in the picture.
        ticks: values on the x axis and their names.
        content: what is drawn: :class:`Series`, sizes, or rows of :func:`dot_chart` and :func:`cell_chart`.
        x_label, y_label: of the axes.
        marked: whether the points of lines are drawn, and bars are apart.
    """

    kind: str
    id: str
    title: str
    description: str
    numbers: NumberTable
    frame: Frame
    ticks: Sequence[tuple[float, str]]
    content: Sequence[Any]
    x_label: str = ""
    y_label: str = ""
    marked: bool = False

    @property
    def y_ticks(self) -> list[float]:
        """Values on the y axis."""
        return nice_ticks(self.frame.low_y, self.frame.high_y, 4)


def line_chart(
    id: str,
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    ticks: Sequence[tuple[float, str]] | None = None,
    markers: bool = False,
    start: float | None = None,
) -> Chart | None:
    """Lines over one axis, at most :data:`SERIES` of them; the table has all. None where no series has a point.

    ``ticks`` are places and names on the x axis, where it has levels; ``start`` is where the y axis starts.
    """
    series = [one for one in series if len(one.x)]
    drawn = series[:SERIES]
    if not drawn:
        return None
    words = "; ".join(f"{one.name}: {number(one.y[0])} to {number(one.y[-1])}" for one in drawn)
    text, numbers = f"{y_label} by {x_label}. {words}.", _line_table(title, series, x_label, dict(ticks or ()))
    title += "" if len(drawn) == len(series) else f" ({len(drawn)} of {len(series)} lines; all are in the numbers)"
    frame = _frame(drawn, start)
    ticks = ticks or _named(nice_ticks(frame.low_x, frame.high_x))
    return Chart("lines", id, title, text, numbers, frame, ticks, drawn, x_label, y_label, markers)


def bar_chart(
    id: str, title: str, values: Sequence[int], *, x_label: str, y_label: str, names: Sequence[str] | None = None
) -> Chart:
    """Sizes with their mean as a line: named bars in the order given or, without names, one outline, largest first."""
    sizes = list(values) if names else sorted(values, reverse=True)
    text = f"{len(sizes)} values from {max(sizes)} down to {min(sizes)}, mean {number(sum(sizes) / len(sizes))}."
    rows = thinned(list(zip(names or range(1, len(sizes) + 1), sizes, strict=True)))
    numbers = NumberTable(title, ["" if names else "rank", y_label], rows)
    frame = Frame(0, len(sizes), 0, nice_top(max(1, *sizes)))
    ticks = thinned([(place + 0.5, name) for place, name in enumerate(names or ())], NAMED)
    ticks = ticks or _named(nice_ticks(0, len(sizes)))
    return Chart("bars", id, title, text, numbers, frame, ticks, sizes, x_label, y_label, bool(names))


def dot_chart(
    id: str, title: str, rows: Sequence[tuple[str, float, float | None, bool]], *, unit: str, digits: int
) -> Chart:
    """One value per row as a dot with a whisker of one standard deviation.

    A row has a name, a mean, a standard deviation (None of a single value), and whether it is ours, which is marked.
    """
    low = min(mean - (deviation or 0) for _, mean, deviation, _ in rows)
    high = max(mean + (deviation or 0) for _, mean, deviation, _ in rows)
    margin = max((high - low) * 0.12, 10.0**-digits * 5)
    height = ROW_HEIGHT * len(rows) + 30
    frame = Frame(low - margin, high + margin, 0, 1, height, left=160.0, right=100.0)
    content = [(name, mean, deviation, ours, spread(mean, deviation, digits)) for name, mean, deviation, ours in rows]
    words = "; ".join(f"{name} {value}" for name, *_, value in content)
    numbers = [[name, spread(mean, deviation, max(digits, 2))] for name, mean, deviation, _ in rows]
    table, ticks = NumberTable(title, ["", unit], numbers), _named(nice_ticks(frame.low_x, frame.high_x, 4))
    return Chart("dots", id, title, f"{unit}: {words}.", table, frame, ticks, content)


def cell_chart(
    id: str, title: str, names: Sequence[str], counts: Sequence[Sequence[int]], *, rows: str, columns: str
) -> Chart:
    """A square of counts, each cell as dark as its share of its row; columns have the numbers of the rows.

    The share is written in every cell, so that nothing depends on telling greys apart.
    """
    shares = [[count / max(1, sum(row)) for count in row] for row in counts]
    content = []
    for place, (name, row) in enumerate(zip(names, shares, strict=True)):
        short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
        content.append((f"{short} ({place + 1})", row))
    words = "; ".join(_most_taken_for(names, place, row) for place, row in enumerate(shares) if sum(counts[place]))
    table = [[f"{name} ({place + 1})", *row] for place, (name, row) in enumerate(zip(names, counts, strict=True))]
    numbers = NumberTable(f"{title}: answers", [rows, *(str(place + 1) for place in range(len(names)))], table)
    frame = Frame(0, len(names), len(names), 0, CELL * len(names) + 50, left=150.0)
    ticks = [(place + 0.5, str(place + 1)) for place in range(len(names))]
    text = f"Rows: {rows}, columns: {columns}, in per cent of the row. {words}."
    return Chart("cells", id, title, text, numbers, frame, ticks, content, columns, rows)


def _most_taken_for(names: Sequence[str], place: int, row: Sequence[float]) -> str:
    """How much of a row is on the diagonal, and where most of the rest is."""
    wrong = max((share, -other) for other, share in enumerate(row) if other != place) if len(row) > 1 else (0.0, 0)
    most = f", most often taken for {names[-wrong[1]]}: {100 * wrong[0]:.0f} %" if wrong[0] > 0 else ""
    return f"{names[place]}: {100 * row[place]:.0f} % right{most}"


def thinned(values: Sequence[T], most: int = ROWS) -> list[T]:
    """At most so many of the values, evenly, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def _named(ticks: Sequence[float]) -> list[tuple[float, str]]:
    return [(tick, number(tick)) for tick in ticks]


def _frame(series: Sequence[Series], start: float | None) -> Frame:
    points = [point for one in series for point in one.points]
    bottom, top = min(y - deviation for _, y, deviation in points), max(y + deviation for _, y, deviation in points)
    margin = (top - bottom) * 0.06 or abs(top) * 0.05 or 1.0
    low, high = min(x for x, _, _ in points), max(x for x, _, _ in points)
    return Frame(low, high, bottom - margin if start is None else min(start, bottom), top + margin)


def _line_table(title: str, series: Sequence[Series], x_label: str, names: dict[float, str]) -> NumberTable:
    places = sorted({x for one in series for x in one.x})
    cells = [{x: _cell(y, deviation) for x, y, deviation in one.points} for one in series]
    rows = [[names.get(x, number(x, 6)), *(column.get(x, "") for column in cells)] for x in thinned(places)]
    return NumberTable(title, [x_label, *(one.name for one in series)], rows)


def _cell(value: float, deviation: float) -> str:
    return f"{number(value, 4)} ± {number(deviation, 2)}" if deviation else number(value, 4)
