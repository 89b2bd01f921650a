"""Text that others wrote steers no terminal, turns no line, and is no formula."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plgc.runtime.text import UNPRINTABLE, csv_cell, markdown_cell, visible, visible_lines


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    for shown in (visible(text), visible_lines(text).replace("\n", ""), markdown_cell(text), csv_cell(text)):
        assert not UNPRINTABLE.search(shown)
        assert "\n" not in shown
        shown.encode()  # also without halves of pairs
    assert visible_lines(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ärger 🦄", "plain Ärger 🦄"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("two\nlines", "two\\nlines"),
        ("\x9b2J", "\\x9b2J"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("  =1", "'  =1"),
        ("\t=1", "'\\t=1"),
        ("-2", "-2"),
        ("+1.5e-7", "+1.5e-7"),
        ("-", "'-"),
        ("a=1", "a=1"),
        (7, 7),
        (-0.5, -0.5),
    ],
)
def test_cells_of_a_table(value: object, cell: object) -> None:
    assert csv_cell(value) == cell
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell(value)])
    assert next(csv.reader([text.getvalue()])) == [str(cell)]


def test_markdown() -> None:
    assert markdown_cell("a|b [1][2] `x` <img src=x>\n| c") == "a\\|b \\[1\\]\\[2\\] \\`x\\` &lt;img src=x>\\n\\| c"
