"""The ancestry of a condensed graph in words: one line, oldest step first."""

from __future__ import annotations

from collections.abc import Sequence

from plgc.artifact.ancestry import Ancestor, Parent
from plgc.runtime.text import counted

DIGITS = 12  # of a checksum
SHOWN = 3  # steps, and files of a step, that are told one by one
WORDS = {"update": "updated from", "update-only-new": "updated, with what was new alone, from", "merge": "merged from"}


def lineage(ancestry: Sequence[Ancestor]) -> str | None:
    """What a file was made from, where that was other files; None for one that was condensed from a graph."""
    if not ancestry:
        return None
    left_out = len(ancestry) - SHOWN
    before = [f"{counted(left_out, 'earlier step')}"] if left_out > 0 else []
    return "; then ".join([*before, *map(_step, ancestry[-SHOWN:])])


def _step(step: Ancestor) -> str:
    if step.how == "forget":
        return "made to forget some nodes of a file that it does not name"
    parents = step.parents
    if len(parents) == 1:
        return f"{WORDS[step.how]} a file of {_size(parents)} ({_checksums(parents)})"
    return f"{WORDS[step.how]} {counted(len(parents), 'file')} of {_size(parents)} in all ({_checksums(parents)})"


def _size(parents: Sequence[Parent]) -> str:
    rows = counted(sum(parent.rows for parent in parents), "row")
    nodes = [parent.nodes for parent in parents if parent.nodes is not None]
    return f"{counted(sum(nodes), 'node')}, {rows}" if len(nodes) == len(parents) else rows


def _checksums(parents: Sequence[Parent]) -> str:
    shown = ", ".join(parent.checksum[:DIGITS] for parent in parents[:SHOWN])
    rest = len(parents) - SHOWN
    return f"checksum{'s' * (len(parents) > 1)} {shown}" + (f" and {rest} more" if rest > 0 else "")
