"""The picture of the guide on graphs that change, as SVG: update, only new, merge and forget, a row each.

It has a white ground of its own, as the other figures, so that it can be read in both colour schemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, ROW, TOP = 760, 118, 12
INK, FAINT, OLD, NEW, GONE, FILE = "#333333", "#999999", "#56b4e9", "#d55e00", "#bbbbbb", "#0072b2"
# Nodes of a small graph, and its edges; the last three nodes are those that arrive or leave.
NODES = ((10, 16), (34, 8), (24, 34), (50, 28), (12, 54), (38, 54), (70, 12), (76, 42), (60, 58))
EDGES = ((0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (4, 5), (3, 5), (1, 6), (3, 7), (6, 7), (5, 8), (7, 8))
LAST = (6, 7, 8)
HALO = (1, 3, 5)  # neighbours of the last three
ROWS = (
    ("update", "The whole graph as it is now, and the old file: training starts from what the file knows."),
    ("update --only-new", "Only what arrived, and its old neighbours: the file stands in for the rest."),
    ("merge", "Files alone, no graph: one output space, counts added up."),
    ("forget", "Nodes and their edges leave. What remains is condensed in short, as the old file's settings say."),
)


def picture() -> str:
    """The whole picture."""
    rows = [_update(), _only_new(), _merge(), _forget()]
    height = TOP + ROW * len(rows)
    body = [
        f'<g transform="translate(0 {TOP + ROW * place})">{_heading(*ROWS[place])}{row}</g>'
        for place, row in enumerate(rows)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}" role="img">'
        "<title>Update, only new, merge and forget: what goes in and what comes out</title>"
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>{"".join(body)}</svg>\n'
    )


def _update() -> str:
    graph = _graph(200, dict.fromkeys(LAST, NEW))
    return graph + _plus(305) + _file(325, 4) + _becomes(4, 2, "rows grow with the", "graph")


def _only_new() -> str:
    graph = _graph(200, dict.fromkeys(LAST, NEW) | dict.fromkeys(HALO, "#ffffff"), (*HALO, *LAST))
    made = _becomes(4, 2, "old rows weigh as much as", "the nodes they stand for")
    return graph + _plus(305) + _file(325, 4) + made


def _merge() -> str:
    return "".join(_file(x, 3) for x in (200, 262, 324)) + _becomes(
        5, 0, "as small to use as", "the file of one source"
    )


def _forget() -> str:
    graph = _graph(200, dict.fromkeys(LAST, GONE), crossed=LAST)
    return graph + _plus(305) + _file(325, 5) + _becomes(4, 0, "a new file: replace the", "old one everywhere")


def _becomes(rows: int, new: int, *words: str) -> str:
    """An arrow, the file that is made, and two lines on it."""
    head = f'<path d="M395 46H431M423 40L431 46L423 52" fill="none" stroke="{INK}" stroke-width="1.6"/>'
    lines = [f'<text x="525" y="{42 + 17 * place}">{escape(line)}</text>' for place, line in enumerate(words)]
    return head + _file(450, rows, new) + "".join(lines)


def _heading(name: str, words: str) -> str:
    return (
        f'<text x="16" y="46" font-weight="bold" font-family="monospace">{escape(name)}</text>'
        f'<text x="200" y="106" font-size="12" fill="{INK}">{escape(words)}</text>'
    )


def _graph(x: int, colours: dict[int, str], shown: Sequence[int] | None = None, crossed: Sequence[int] = ()) -> str:
    """The small graph, or some nodes of it; edges at nodes that leave are dashed."""
    kept = range(len(NODES)) if shown is None else shown
    parts = []
    for u, v in EDGES:
        if u in kept and v in kept:
            dash = ' stroke-dasharray="3 3"' if u in crossed or v in crossed else ""
            (a, b), (c, d) = NODES[u], NODES[v]
            parts.append(f'<path d="M{a} {b}L{c} {d}" stroke="{FAINT}" stroke-width="1.4"{dash}/>')
    for node in kept:
        a, b = NODES[node]
        parts.append(f'<circle cx="{a}" cy="{b}" r="6" fill="{colours.get(node, OLD)}" stroke="{INK}"/>')
        if node in crossed:
            parts.append(f'<path d="M{a - 5} {b - 5}L{a + 5} {b + 5}M{a - 5} {b + 5}L{a + 5} {b - 5}" stroke="{INK}"/>')
    return f'<g transform="translate({x} 14)">{"".join(parts)}</g>'


def _file(x: int, rows: int, new: int = 0) -> str:
    """A condensed file: a sheet with its rows, new ones in another colour."""
    lines = [
        f'<rect x="8" y="{10 + 8 * place}" width="34" height="5" fill="{FILE if place < rows else NEW}"/>'
        for place in range(rows + new)
    ]
    sheet = f'<path d="M0 0H38L50 12V64H0ZM38 0V12H50" fill="#f2f2f2" stroke="{INK}"/>'
    return f'<g transform="translate({x} 14)">{sheet}{"".join(lines)}</g>'


def _plus(x: int) -> str:
    return f'<path d="M{x - 6} 46H{x + 6}M{x} 40V52" stroke="{INK}" stroke-width="1.6"/>'


if __name__ == "__main__":
    print(picture(), end="")
