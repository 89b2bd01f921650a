"""HTML from Python, safe by default: what is not :class:`Html` already is text, and is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VOID = ("br", "hr", "img", "meta", "link", "circle", "line", "path", "rect")
SVG_SELF_CLOSED = ("circle", "line", "path", "rect")


class Html(str):
    """Markup that is ready; a plain ``str`` is text."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Any value as text that no browser takes for markup."""
    return text if isinstance(text, Html) else Html(html.escape(str(text), quote=True))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element. ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None leaves an attribute out."""
    shown = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in VOID:
        return Html(f"<{name}{shown}{'/' if name in SVG_SELF_CLOSED else ''}>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value), quote=True)}"'


def join(parts: Iterable[object], between: str = "") -> Html:
    """Pieces one after the other; None is left out."""
    return Html(between.join(escape(part) for part in parts if part is not None))


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, names: int = 1) -> Html:
    """A table whose first ``names`` columns are text and whose others are numbers; it scrolls where it is too wide."""
    align = [None if place < names else "n" for place in range(len(head))]
    top = tag("tr", *(tag("th", cell, scope="col", class_=side) for cell, side in zip(head, align, strict=True)))
    body = []
    for row in rows:
        first, *others = zip(row, align, strict=True)
        cells = [tag("th", first[0], scope="row"), *(tag("td", cell, class_=side) for cell, side in others)]
        body.append(tag("tr", *cells))
    made = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def facts(pairs: Mapping[str, object]) -> Html:
    """Named values, one a line."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items()), class_="facts")


def details(summary: str, *content: object) -> Html:
    """What is folded away until it is wanted."""
    return tag("details", tag("summary", summary), *content)


def script_json(identity: str, value: Any) -> Html:
    """Data for the page's own script. Nothing in it can end the element or start a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{identity}">{text}</script>')
