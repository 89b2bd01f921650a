"""Text that others wrote, as it may be shown: on a terminal, in a page, in Markdown and in a spreadsheet.

Names of classes, nodes, sources and methods come from files and tables. Raw, they could clear a terminal, turn the text
around them, start a line of their own, or be taken for a formula.
"""

from __future__ import annotations

import html
import re
from typing import Any

# Control characters, marks and overrides of the writing direction, line separators, and halves of pairs.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their wide forms
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def visible(text: str) -> str:
    r"""The text on one line, what cannot be printed as in Python: an escape character as ``\x1b``.

    Example:
        >>> visible("red\x1b[31m")
        'red\\x1b[31m'
    """
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def html_line(text: str) -> str:
    """The text as one line of HTML, for a notebook: no markup of its own, what cannot be printed escaped."""
    return f"<code>{html.escape(visible(text))}</code>"


def counted(count: int, thing: str, plural: str | None = None) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "node"), counted(1433, "feature"), counted(2, "class", "classes")
        ('1 node', '1,433 features', '2 classes')
    """
    return f"{count:,} {thing if count == 1 else plural or thing + 's'}"


def csv_cell(value: Any) -> Any:
    """A cell for CSV that a spreadsheet takes for text: one that begins like a formula gets an apostrophe before it."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    formula = text.lstrip().startswith(FORMULA) or value.startswith(FORMULA)
    return f"'{text}" if formula and not NUMBER.fullmatch(text.strip()) else text


def markdown_cell(text: str) -> str:
    """Text for a Markdown table or list: no markup, no HTML, one line."""
    return re.sub(r"([|\[\]`])", r"\\\1", visible(text)).replace("<", "&lt;")
