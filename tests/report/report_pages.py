"""A reader of reports that checks their markup: balanced, labelled, and nothing from elsewhere."""

from __future__ import annotations

import itertools
from collections import Counter
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "meta", "link", "input"}


class Page(HTMLParser):
    """A page's elements and text. Tags must be balanced, ids unique, links and labels must lead somewhere."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], str | None]] = []
        self.words: list[str] = []
        self.ids: Counter[str] = Counter()
        self.feed(page)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        self.elements.append((tag, dict(attrs), self.open[-1] if self.open else None))
        self.ids.update(value for name, value in attrs if name == "id" and value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        """What is read, with every kind of space as a plain one."""
        return " ".join(" ".join(self.words).split())

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes, _ in self.elements if name == tag]


def read_page(page: str) -> Page:
    """Read a page and check what every report owes its readers."""
    found = Page(page)
    assert {name for name, count in found.ids.items() if count > 1} == set()
    for name, attributes, _ in found.elements:
        for pointer in ("aria-labelledby", "aria-describedby"):
            for target in (attributes.get(pointer) or "").split():
                assert target in found.ids, f"{name} points to {target}"
        if name == "a" and (attributes.get("href") or "").startswith("#"):
            assert (attributes["href"] or "")[1:] in found.ids
        if name in ("svg", "canvas", "img"):
            told = attributes.get("aria-labelledby") or attributes.get("aria-label") or attributes.get("alt")
            assert told or attributes.get("aria-hidden") == "true", f"{name} has no text alternative"
        for attribute in ("src", "href", "action", "srcset"):
            assert not (attributes.get(attribute) or "").startswith(("http", "//", "/")), "nothing comes from elsewhere"
    levels = [int(name[1]) for name, _, _ in found.elements if name in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for landmark in ("header", "main", "footer", "nav"):
        assert len(found.find(landmark)) == 1
    assert "https://" not in page
    assert "http://" not in page.replace("http-equiv", "")
    return found
