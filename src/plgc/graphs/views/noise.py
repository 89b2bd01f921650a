"""Label noise: symmetric flips of a known share, to test supervised condensation with."""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.runtime.errors import LabelError, SettingError


def flip_labels(y: Tensor, rate: float, classes: int, seed: int) -> Tensor:
    """Return labels of which a share is wrong: each flipped to another class, all others equally likely.

    Exactly round(rate · labelled) labels are flipped. With one seed the draws are nested: what is wrong at rate .3 is
    wrong in the same way at .5.

    Args:
        y: labels, −1 for unlabelled (which stay so).
        rate: share of the labelled nodes to flip, 0 to 1.
        classes: C, the number of classes.
        seed: of the draw.
    """
    if not 0.0 <= rate <= 1.0:
        raise SettingError(f"noise is {rate}: a rate must lie between 0 and 1")
    if classes < 2 and rate > 0:
        raise LabelError(f"labels of {classes} class(es) cannot be flipped to another: at least 2 are needed")
    generator = torch.Generator().manual_seed(seed)
    labelled = (y >= 0).nonzero().flatten()
    order = labelled[torch.randperm(labelled.numel(), generator=generator)]
    shift = torch.randint(1, max(2, classes), (labelled.numel(),), generator=generator)
    count = round(rate * labelled.numel())
    flipped, noisy = order[:count], y.clone()
    noisy[flipped] = (y[flipped] + shift[:count]) % classes
    return noisy
