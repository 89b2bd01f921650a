"""The section "Who was in the graph?": what the files tell of it, as far as it is known."""

from __future__ import annotations

from collections.abc import Sequence

from plgc.artifact.members import told_of_members
from plgc.report.html import Html, join, tag
from plgc.report.study import Study

ATTACK = (
    "The attack fits the file's rows by rows of nodes that may have been in the graph, none with a negative weight. A "
    "file's rows are nearly sums of its members' rows, so members get weight and others do not. A minimum size of "
    "clusters (--min-cluster) changes nothing about that; --max-share 0.2 with it does, and costs much of what the "
    "file is for."
)


def members(studies: Sequence[Study]) -> Html:
    """The section's content: a sentence for all files, or one for each kind of them."""
    kinds: dict[str, list[str]] = {}
    for one in studies:
        kinds.setdefault(told_of_members(one.condensed)["text"], []).append(one.name)
    return join(
        [*(_told(text, names, len(kinds) > 1) for text, names in kinds.items()), tag("p", ATTACK, class_="note")]
    )


def _told(text: str, names: Sequence[str], differ: bool) -> Html:
    return tag("p", f"{', '.join(names)}: {text}." if differ else f"{text[0].upper()}{text[1:]}.")
