"""Which nodes are for training: generated splits, few-shot draws, fixed label budgets and folds.

Every draw takes a seed and has its own generator, so it neither reads nor changes torch's global random state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from plgc.runtime.errors import LabelError

PER_CLASS = 20
VALIDATION = 500
FOLDS = 5
SHOWN = 5  # classes in a message


def generated_split(y: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw train, validation and test masks for a graph that has labels and no official split.

    Training takes 20 nodes of each class, or half of a class (rounded down, at least one) with under 40 nodes.
    Validation takes 500 of the rest, at most a third of it; the others are test nodes. Unlabelled nodes (−1) are in
    none of the three.
    """
    generator = torch.Generator().manual_seed(seed)
    train = torch.zeros(y.numel(), dtype=torch.bool)
    for members in members_by_class(y):
        size = members.numel()
        count = PER_CLASS if size >= 2 * PER_CLASS else max(1, size // 2)
        train[_draw(members, count, generator)] = True
    rest = ((y >= 0) & ~train).nonzero().flatten()
    chosen = _draw(rest, min(VALIDATION, rest.numel() // 3), generator)
    val = torch.zeros_like(train)
    val[chosen] = True
    return train, val, (y >= 0) & ~train & ~val


def training_text(y: Tensor, train: Tensor) -> str:
    """How many training nodes the classes have: "20 per class" or, where classes are small, "7 to 20 per class"."""
    counts = y[train].unique(return_counts=True)[1].tolist()
    fewest, most = min(counts, default=0), max(counts, default=0)
    return f"{most} per class" if fewest == most else f"{fewest} to {most} per class"


def draw_shots(y: Tensor, pool_mask: Tensor, shots: int, seed: int, names: Sequence[str] | None = None) -> Tensor:
    """Draw ``shots`` labelled nodes of every class from the pool; sorted node numbers.

    With one seed the draws are nested: those for 3 shots are among those for 5. ``names`` are those of the classes.

    Raises:
        LabelError: a class has fewer than ``shots`` labelled nodes in the pool.
    """
    if shots < 1:
        raise LabelError(f"shots={shots}: at least one label per class is needed")
    generator = torch.Generator().manual_seed(seed)
    pool = _pool_by_class(y, pool_mask)
    counts = {str(label if names is None else names[label]): members.numel() for label, members in pool}
    if min(counts.values()) < shots:
        short = [f"class {name} has {count}" for name, count in counts.items() if count < shots]
        more = "" if len(short) <= SHOWN else f" and {len(short) - SHOWN} more classes have fewer"
        raise LabelError(
            f"{shots} labels per class were asked for, and of those to train on {', '.join(short[:SHOWN])}{more}: ask "
            f"for at most {min(counts.values())}"
        )
    return torch.cat([_draw(members, shots, generator) for _, members in pool]).sort().values


def draw_labels(y: Tensor, pool_mask: Tensor, total: int, seed: int) -> Tensor:
    """Draw ``total`` labelled nodes from the pool, as evenly over the classes as the pool allows; sorted node numbers.

    Every class gets an equal share and at least one. A remainder goes to randomly drawn classes; a class that runs
    out passes its share on to the others.

    Raises:
        LabelError: fewer labels than classes were asked for, a class has none in the pool, or the pool is too small.
    """
    pool = _pool_by_class(y, pool_mask)
    if total < len(pool):
        raise LabelError(f"{total} label(s) for {len(pool)} classes: at least one per class, so {len(pool)}, is needed")
    available = torch.tensor([members.numel() for _, members in pool])
    for (label, _), count in zip(pool, available.tolist(), strict=True):
        if count == 0:
            raise LabelError(f"class {label} has 0 labelled nodes in the training pool: at least one is needed")
    if total > int(available.sum()):
        raise LabelError(f"{total} labels asked for, the training pool has {int(available.sum())}: ask for fewer")
    generator = torch.Generator().manual_seed(seed)
    counts = torch.zeros_like(available)
    while (left := total - int(counts.sum())) > 0:
        open_classes = (counts < available).nonzero().flatten()
        share = left // open_classes.numel()
        if share == 0:
            counts[_draw(open_classes, left, generator)] += 1
        else:
            counts[open_classes] = torch.minimum(counts[open_classes] + share, available[open_classes])
    drawn = [_draw(members, count, generator) for (_, members), count in zip(pool, counts.tolist(), strict=True)]
    return torch.cat(drawn).sort().values


def label_folds(y: Tensor, seed: int) -> list[Tensor]:
    """The held-out nodes of every fold: each class is spread over at most five folds, as evenly as it goes.

    The only label of a class is in no fold: without it the class could not be learned. Where no class has two labels
    there is no fold.
    """
    generator = torch.Generator().manual_seed(seed)
    classes = [members for members in members_by_class(y) if members.numel() > 1]
    count = min(FOLDS, max((members.numel() for members in classes), default=0))
    fold, before = torch.full_like(y, -1), 0
    for members in classes:
        fold[_draw(members, members.numel(), generator)] = (torch.arange(members.numel()) + before) % count
        before += members.numel()
    return [(fold == place).nonzero().flatten() for place in range(count)]


def labels_present(y: Tensor) -> list[int]:
    """The classes that occur in ``y``, in order, without −1 (unlabelled)."""
    return [label for label in y.unique().tolist() if label >= 0]


def members_by_class(y: Tensor) -> list[Tensor]:
    """The nodes of every class that occurs, in order, without −1 (unlabelled)."""
    classes, counts = y.unique(return_counts=True)
    groups = y.argsort(stable=True).split(counts.tolist())
    return [group for label, group in zip(classes.tolist(), groups, strict=True) if label >= 0]


def _pool_by_class(y: Tensor, pool_mask: Tensor) -> list[tuple[int, Tensor]]:
    if pool_mask.dtype != torch.bool or pool_mask.shape != y.shape:
        raise LabelError(
            f"the pool is a {pool_mask.dtype} tensor of shape {list(pool_mask.shape)}, expected a boolean mask over "
            f"the {y.numel()} nodes"
        )
    labels = labels_present(y)
    if not labels:
        raise LabelError(f"none of the {y.numel()} nodes has a label: there is nothing to draw")
    pools = (members[pool_mask[members]] for members in members_by_class(y))
    return list(zip(labels, pools, strict=True))


def _draw(members: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return members[torch.randperm(members.numel(), generator=generator)[:count]]
