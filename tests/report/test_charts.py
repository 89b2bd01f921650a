"""Charts as SVG: places, ticks, text alternatives, and numbers in tables; text is escaped."""

from __future__ import annotations

import re

import pytest

from plgc.report.build import templates
from plgc.report.charts import SERIES, Chart, NumberTable, Series, bar_chart, dot_chart, line_chart, thinned
from plgc.report.formatting import counted, flattened, number, percent, size, spread, whole
from plgc.report.scales import Frame, nice_ticks, nice_top


def draw(chart: Chart | None) -> str:
    return str(templates().get_template("charts.html").module.chart(chart))  # pyright: ignore


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert nice_ticks(79.2, 84.1, 4) == [80, 82, 84]
    assert nice_ticks(-0.013, 0.021, 4) == [-0.01, 0, 0.01, 0.02]
    assert nice_ticks(3, 3) == [3]
    assert nice_top(109) == 120
    assert nice_top(10) == 10


def test_a_line_runs_through_its_points() -> None:
    one = Series("loss", [1, 2, 4], [3.0, 1.0, 2.0])
    chart = draw(line_chart("a", "A & B", [one], x_label="step", y_label="loss"))
    frame = Frame(1, 4, 1 - 0.12, 3 + 0.12)
    [path] = re.findall(r'<path d="M([^"]*)" class="line', chart)
    expected = [(frame.x(x), frame.y(y)) for x, y in zip(one.x, one.y, strict=True)]
    found = [tuple(map(float, point.split())) for point in path.split("L")]
    assert [coordinate for point in found for coordinate in point] == pytest.approx(
        [coordinate for point in expected for coordinate in point], abs=0.051
    )
    assert "loss by step. loss: 3 to 2." in chart
    assert "A &amp; B" in chart
    assert 'role="img"' in chart
    assert 'aria-labelledby="a-title a-text"' in chart
    assert "<td" in chart
    assert line_chart("a", "", [Series("empty", [], [])], x_label="", y_label="") is None


def test_many_lines_are_all_in_the_table() -> None:
    lines = [Series(f"line {place}", [0, 1], [place, place + 1]) for place in range(SERIES + 3)]
    chart = draw(line_chart("many", "Many", lines, x_label="x", y_label="y"))
    assert chart.count('<path d="M') == SERIES
    assert f"{SERIES} of {SERIES + 3} lines" in chart
    assert "line 10" in chart


def test_bars() -> None:
    chart = draw(bar_chart("b", "Sizes", [2, 8, 5], x_label="nodes", y_label="size"))
    assert "3 values from 8 down to 2, mean 5." in chart
    rows = re.findall(r'<th scope="row">(\w+)</th><td class="n">(\d+)</td>', chart)
    assert rows == [("1", "8"), ("2", "5"), ("3", "2")]
    named = draw(bar_chart("b", "Sizes", [2, 8, 5], x_label="class", y_label="size", names=["x", "y", "z"]))
    assert re.findall(r'<th scope="row">(\w+)</th><td class="n">(\d+)</td>', named) == [
        ("x", "2"),
        ("y", "8"),
        ("z", "5"),
    ]


def test_dots_are_in_order_of_their_values() -> None:
    rows = [("ours", 83.4, 0.3, True), ("whole", 81.2, None, False)]
    chart = draw(dot_chart("d", "Scores", rows, unit="%", digits=1))
    [ours, whole_graph] = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', chart)]
    assert ours > whole_graph
    assert "ours 83.4 ± 0.3; whole 81.2." in chart
    assert chart.count("whisker") == 1


def test_text_is_escaped() -> None:
    parts = templates().get_template("parts.html").module
    made = str(parts.table(NumberTable('<"&', ["<i>"], [["<b>"]])))  # pyright: ignore
    for text in ("&lt;b&gt;", "&lt;i&gt;", 'aria-label="&lt;&#34;&amp;"'):
        assert text in made
    data = templates().from_string("{{ data|tojson }}").render(data={"a": "</script><!--\u2028"})
    assert data == '{"a":"\\u003c/script\\u003e\\u003c!--\\u2028"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        templates().from_string("{{ data|tojson }}").render(data=float("nan"))


def test_numbers_as_text() -> None:
    assert whole(21000) == "21\u202f000"
    assert (number(0.15283), number(-0.5), number(None), number(123456.0)) == ("0.153", "−0.5", "–", "123456")
    assert percent(0.02585) == "2.6\u202f%"
    assert (size(999), size(507_000), size(1_440_000)) == ("999\u202fB", "507\u202fkB", "1.44\u202fMB")
    assert (spread(83.44, 0.31), spread(83.44, None)) == ("83.4 ± 0.3", "83.4")
    assert (counted(1, "node"), counted(2, "node")) == ("1 node", "2 nodes")
    nested = {"a": 1, "b": {"c": 0.5, "d": [1, 2]}, "e": [{"f": None}]}
    assert flattened(nested) == [("a", "1"), ("b.c", "0.5"), ("b.d", "1, 2"), ("e.0.f", "none")]
    assert thinned(range(100), 3) == [0, 50, 99]
