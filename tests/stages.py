"""A small stage I to test with."""

from __future__ import annotations

from typing import Any

from plgc.config import Branch, PseudoLabelSettings
from plgc.inputs import Inputs
from plgc.pseudo_labels import StageOne, start_stage_one

BRANCHES = (Branch(hidden=16, width=12), Branch(hidden=16, width=8))


def begin(inputs: Inputs, **settings: Any) -> StageOne:
    """Two narrow encoders and ten prototypes, not trained yet."""
    return start_stage_one(inputs, 10, BRANCHES, PseudoLabelSettings(**settings), seed=0)
