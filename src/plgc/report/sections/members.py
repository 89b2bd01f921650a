"""The section "Who was in the graph?": what files made like these tell about it, as far as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plgc.artifact.members import told_of_members
from plgc.report.facts.files import FileFacts


def members_section(files: Sequence[FileFacts]) -> dict[str, Any]:
    """A sentence for all files, or one for each kind of them."""
    kinds: dict[str, list[str]] = {}
    for file in files:
        kinds.setdefault(told_of_members(file.condensed)["text"], []).append(file.name)
    if len(kinds) == 1:
        return {"texts": [f"{text[0].upper()}{text[1:]}." for text in kinds]}
    return {"texts": [f"{', '.join(names)}: {text}." for text, names in kinds.items()]}
