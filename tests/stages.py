"""A small stage I to test with."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from plgc.method.settings import Branch, PseudoLabelSettings
from plgc.method.stage_one import PseudoLabels, StageOne, read_pseudo_labels, start_stage_one
from plgc.sparse.inputs import Inputs

BRANCHES = (Branch(hidden=16, width=12), Branch(hidden=16, width=8))


def begin(inputs: Inputs, **settings: Any) -> StageOne:
    """Two narrow encoders and ten prototypes, not trained yet; unless told otherwise, ℓ_swap is among the losses."""
    return start_stage_one(inputs, 10, BRANCHES, PseudoLabelSettings(**{"swap": 1.0, **settings}), seed=0)


def pseudo_labels(stage: StageOne, embedding: Tensor) -> PseudoLabels:
    """The pseudo-labels of an embedding, with a stage's prototypes and settings."""
    return read_pseudo_labels(embedding, stage.prototypes, stage.blocks, stage.settings)
