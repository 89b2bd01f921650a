"""Variants of our method for the experiment ``ablation``: what each part of it is worth.

Variants of the default differ from it in one thing. Those of the paper's preset add one thing after the other; the last
two steps from there to the default are ``file alone`` and ``default``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.backbone import BESIDE
from plgc.downstream.embedder import Embedder
from plgc.downstream.head import HeadSettings
from plgc.evaluation.kept import KeptEmbedding
from plgc.method.settings import ENCODERS, PAPER, PLAIN, Branch, CondenseSettings, SynthesisSettings
from plgc.rivals.controls import Reference
from plgc.sparse.inputs import Inputs


@dataclass(frozen=True)
class Variant:
    """What is condensed, and what is made of the file.

    Attributes:
        settings: of the condensation.
        beside: whether X, ÂX and Â²X stand beside what is rebuilt.
        head: of the head.
        pooled: whether the head weighs logistic regressions on different parts; False for one on all of them.
    """

    settings: CondenseSettings = field(default_factory=CondenseSettings)
    beside: bool = True
    head: HeadSettings = field(default_factory=HeadSettings)
    pooled: bool = True

    def of(self, model: Embedder) -> Embedder:
        """The rebuilt model, with the parts that the variant leaves it."""
        if not self.beside:
            model = KeptEmbedding(model, [name for name in model.parts if name not in BESIDE])
        return model if self.pooled else _one_part(model)


def _one_part(model: Embedder) -> Embedder:
    """All parts as one, each centred and scaled to unit length as a head does it."""

    def embed(graph: Inputs) -> Tensor:
        parts = model.embed(graph).split(list(model.parts.values()), dim=1)
        return torch.cat([F.normalize(part - part.mean(0), dim=1) for part in parts], dim=1)

    return Reference(
        embed, model.num_features, {"learned": sum(model.parts.values())}, model.scaling, str(model.device)
    )


def _changed(base: CondenseSettings, **rules: Any) -> CondenseSettings:
    return replace(base, preset="variant", pseudo_labels=replace(base.pseudo_labels, **rules))


DEFAULT = CondenseSettings()
STRONG = Branch(hidden=512, width=512, edge_drop=0.5, feature_mask=0.5)
DECORRELATED = _changed(PAPER, decorrelation=DEFAULT.pseudo_labels.decorrelation)
SOFT = _changed(DECORRELATED, hard_targets=False, temperature=DEFAULT.pseudo_labels.temperature)
MEANS = _changed(SOFT, refinements=DEFAULT.pseudo_labels.refinements)
PAIR = replace(_changed(MEANS, rounds=6, loss_stride=2), encoders=ENCODERS)
CHANNELS = replace(PAIR, plain=PLAIN)
ONCE = replace(CHANNELS, synthesis=SynthesisSettings())

VARIANTS = {
    "default": Variant(),
    "with ℓ_swap": Variant(_changed(DEFAULT, swap=1.0)),
    "ℓ_swap instead of decorrelation": Variant(_changed(DEFAULT, swap=1.0, decorrelation=0.0)),
    "k-means assignment": Variant(_changed(DEFAULT, balanced=False)),
    "learned prototypes": Variant(_changed(DEFAULT, swap=1.0, refinements=0)),
    "100 steps of stage II": Variant(replace(DEFAULT, synthesis=SynthesisSettings(steps=100))),
    "alternation": Variant(replace(DEFAULT, synthesis=SynthesisSettings(steps=20, every_round=True))),
    "weak encoder alone": Variant(replace(DEFAULT, encoders=ENCODERS[:1])),
    "strong encoder alone": Variant(replace(DEFAULT, encoders=ENCODERS[1:])),
    "three encoders": Variant(replace(DEFAULT, encoders=(*ENCODERS, STRONG))),
    "edges alone": Variant(replace(DEFAULT, plain=None)),
    "no edges": Variant(replace(DEFAULT, encoders=(PLAIN,), plain=None)),
    "file alone": Variant(beside=False),
    "private": Variant(replace(DEFAULT, private=True)),
    "private, file alone": Variant(replace(DEFAULT, private=True), beside=False),
    "no smoothing": Variant(head=HeadSettings(smoothing_steps=0)),
    "no self-training": Variant(head=HeadSettings(self_training=False)),
    "one regression": Variant(pooled=False),
    "paper": Variant(PAPER),
    "paper + decorrelation": Variant(DECORRELATED, beside=False),
    "… + soft targets": Variant(SOFT, beside=False),
    "… + assignment means": Variant(MEANS, beside=False),
    "… + two encoders": Variant(PAIR, beside=False),
    "… + channel without edges": Variant(CHANNELS, beside=False),
    "… − stage II steps": Variant(ONCE, beside=False),
}
