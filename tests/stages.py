"""A small stage I to test with."""

from __future__ import annotations

from typing import Any

from plgc.method.settings import Branch, PseudoLabelSettings
from plgc.method.stage_one import StageOne, start_stage_one
from plgc.sparse.inputs import Inputs

BRANCHES = (Branch(hidden=16, width=12), Branch(hidden=16, width=8))


def begin(inputs: Inputs, **settings: Any) -> StageOne:
    """Two narrow encoders and ten prototypes, not trained yet."""
    return start_stage_one(inputs, 10, BRANCHES, PseudoLabelSettings(**settings), seed=0)
