"""Expert trajectories: the weights of many small GCNs along their training on the whole graph.

SFGC (Zheng et al., 2023) and GEOM (Zhang et al., 2024) match a student's training to these. An expert is a two-layer
GCN without dropout, softmax(Â relu(Â X W1 + b1) W2 + b2), trained on all training nodes. Three things keep it cheap:

- Â X is computed once, and only for the nodes that training nodes see: their closed neighbourhood;
- experts train side by side, their first layers as the columns of one wide matrix, and share every product (on a GPU
  in TF32: there are many experts, and they need not be exact);
- of a trajectory, only the epochs that can be drawn are kept.

GEOM's experts start with easy nodes (curriculum): those whose neighbours are of one class.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from plgc.downstream.backbone import propagated_features
from plgc.rivals.trajectory.settings import STORAGES, ExpertSettings
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.errors import LabelError, SettingError
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.progress import Progress, silent
from plgc.runtime.schema import Count, read
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.features import SparseFeatures, sparse_features, times
from plgc.sparse.inputs import Inputs

AT_ONCE = 25  # experts that train side by side, and share a checkpoint
AT_ONCE_VALUES = 2**30  # hidden values of all of them together
SAVE_PAUSE = 60.0  # seconds: what is kept of a group may be gigabytes
REPORT_EVERY = 50
NO_CHECKPOINT = Checkpoint(None, "")


class Weights(NamedTuple):
    """One GCN: W1 with its bias as the last row [f + 1, h], W2 [h, C] and its bias [C]."""

    first: Tensor
    second: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Trajectories:
    """What is kept of the experts: ``values[expert, place of epoch]`` is a GCN as one row of numbers."""

    values: Tensor
    epochs: tuple[int, ...]
    features: int
    hidden: int
    classes: int

    @property
    def experts(self) -> int:
        """How many experts there are."""
        return self.values.shape[0]

    def at(self, expert: int, epoch: int) -> Weights:
        """An expert's weights after ``epoch`` steps, in float32."""
        row = self.values[expert, self.epochs.index(epoch)].to(torch.float32)
        first, second, bias = row.split([(self.features + 1) * self.hidden, self.hidden * self.classes, self.classes])
        return Weights(first.view(self.features + 1, self.hidden), second.view(self.hidden, self.classes), bias)


@dataclass(frozen=True)
class Field:
    """All that a two-layer GCN's output at some nodes depends on.

    Attributes:
        seen: [R, f] rows of Â X: the nodes and their neighbours.
        gather: [n, R] rows of Â; None where no node has neighbours (A' = I).
    """

    seen: Tensor
    gather: SparseFeatures | None


def receptive_field(inputs: Inputs, nodes: Tensor) -> Field:
    """Cut out what the output at ``nodes`` depends on, in their order."""
    adjacency, device = inputs.adjacency, inputs.device
    place = torch.full((inputs.num_nodes,), -1, device=device)
    place[nodes.to(device)] = torch.arange(nodes.numel(), device=device)
    inside = place[adjacency.row] >= 0
    row, value = place[adjacency.row[inside]], adjacency.matrix.values()[inside]
    around, column = adjacency.col[inside].to(torch.int64).unique(return_inverse=True)
    shape = nodes.numel(), around.numel()
    gather = torch.sparse_coo_tensor(torch.stack([row, column]), value, shape, check_invariants=False)
    return Field(propagated_features(inputs, 1)[around], sparse_features(gather.coalesce().to_sparse_csr()))


class Cohort:
    """GCNs side by side: one wide first layer, one stack of second layers."""

    def __init__(self, members: Sequence[Weights]):
        self.size, self.hidden = len(members), members[0].second.shape[0]
        wide = torch.stack([member.first for member in members], 1).flatten(1)  # [f + 1, E · h]
        second, bias = torch.stack([m.second for m in members]), torch.stack([m.bias for m in members])[:, None]
        self.parameters = [part.contiguous().requires_grad_() for part in (wide[:-1], wide[-1], second, bias)]

    def logits(self, field: Field) -> Tensor:
        """[E, n, C] outputs at the field's nodes."""
        weight, shift, second, bias = self.parameters
        hidden = torch.relu(torch.addmm(shift, field.seen, weight))
        hidden = hidden if field.gather is None else times(field.gather, hidden)
        return torch.baddbmm(bias, hidden.view(-1, self.size, self.hidden).transpose(0, 1), second)

    def losses(self, field: Field, target: Tensor, weight: Tensor) -> Tensor:
        """[E] cross-entropies with soft labels [n, C], every node by its weight [n]."""
        return -(torch.log_softmax(self.logits(field), 2) * target * weight[:, None]).sum((1, 2))

    @torch.no_grad()
    def rows(self) -> Tensor:
        """[E, P] a copy of all weights (never a view of them), laid out as :class:`Trajectories` reads them."""
        weight, shift, second, bias = self.parameters
        first = torch.cat([weight, shift[None]]).view(-1, self.size, self.hidden).transpose(0, 1)
        return torch.cat([first.flatten(1), second.flatten(1), bias.flatten(1)], 1)


def initial_weights(features: int, hidden: int, classes: int, generator: torch.Generator) -> Weights:
    """Uniform in ±1/√(inputs of the layer), biases too, as the papers' GCN starts."""

    def draw(rows: int, columns: int, inputs: int) -> Tensor:
        return (torch.rand(rows, columns, generator=generator) * 2 - 1) / math.sqrt(inputs)

    first = draw(features + 1, hidden, features)
    return Weights(first, draw(hidden, classes, hidden), draw(1, classes, hidden)[0])


def train_experts(
    field: Field,
    y: Tensor,
    classes: int,
    settings: ExpertSettings,
    *,
    keep: Sequence[int],
    seed: int,
    order: Tensor | None = None,
    checkpoint: Callable[[int], Checkpoint] = lambda group: NO_CHECKPOINT,
    progress: Progress = silent,
) -> Trajectories:
    """Train the experts and keep their weights at some epochs.

    Args:
        field: what the training nodes see.
        y: [n] their classes.
        classes: C.
        settings: how to train.
        keep: after how many steps to keep the weights; 0 is the start.
        seed: of the initial weights.
        order: the training nodes (as places in ``y``) from easy to hard; needed unless the pace is ``all``.
        checkpoint: gives the checkpoint of every group of experts that train side by side, by its number.
        progress: called with a message, the epochs done and those in all.
    """
    keep, device = tuple(sorted(set(keep))), field.seen.device
    if keep[-1] > settings.epochs:
        raise SettingError(f"epoch {keep[-1]} is asked for, but experts train for {settings.epochs}: raise epochs")
    if settings.pace != "all" and order is None:
        raise SettingError(f"pace={settings.pace!r} needs the order of the training nodes, from easy to hard")
    room = max(1, min(AT_ONCE, AT_ONCE_VALUES // (field.seen.shape[0] * settings.hidden)))
    groups = math.ceil(settings.experts / room)
    seeds = torch.randint(2**62, (settings.experts,), generator=torch.Generator().manual_seed(seed)).tolist()
    target = torch.nn.functional.one_hot(y.to(device), classes).to(torch.float32)
    order = torch.arange(y.numel(), device=device) if order is None else order.to(device)
    size, width = math.ceil(settings.experts / groups), field.seen.shape[1]
    count = (width + 1) * settings.hidden + (settings.hidden + 1) * classes
    shape = settings.experts, len(keep), count
    values = torch.zeros(shape, dtype=STORAGES[settings.storage], device=device)
    for index in range(groups):
        group = slice(index * size, (index + 1) * size)
        members = [
            initial_weights(width, settings.hidden, classes, torch.Generator().manual_seed(s)) for s in seeds[group]
        ]
        cohort = Cohort([Weights(*(part.to(device) for part in member)) for member in members])

        def report(message: str, done: int, total: int, before: int = index * keep[-1]) -> None:
            progress(message, before + done, groups * keep[-1])

        with _tf32_products():
            _train(cohort, field, target, order, settings, keep, values[group], checkpoint(index), report)
    return Trajectories(values, keep, width, settings.hidden, classes)


@dataclass(frozen=True)
class ExpertsRecord:
    """What a checkpoint says beside its tensors: epochs that are done."""

    done: Count


def _train(
    cohort: Cohort,
    field: Field,
    target: Tensor,
    order: Tensor,
    settings: ExpertSettings,
    keep: tuple[int, ...],
    kept: Tensor,
    file: Checkpoint,
    report: Progress,
) -> None:
    """Train one group to the last epoch that is kept, and fill ``kept`` [E, S, P]."""
    kind = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
    # The optimiser works element by element: each expert is trained as if it were alone.
    optimizer = kind(cohort.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    done, weight, shown, saved = 0, target[:, 0], 0, time.monotonic()
    if keep[0] == 0:
        kept[:, 0] = cohort.rows()
    if (found := file.load()) is not None:
        tensors = found[0]
        with file.resuming():
            done = read(ExpertsRecord, found[1]).done
            kept.copy_(tensors["kept"])
            unpack(optimizer, tensors)
    for epoch in range(done + 1, keep[-1] + 1):
        if (epoch - 1) % REPORT_EVERY == 0:
            report(f"training {cohort.size} experts", epoch - 1, keep[-1])
        if (now := nodes_shown(settings, epoch - 1, order.numel())) != shown:
            shown, weight = now, torch.zeros(order.numel(), device=kept.device)
            weight[order[:now]] = 1 / now
        optimizer.zero_grad()
        cohort.losses(field, target, weight).sum().backward()
        optimizer.step()
        if epoch in keep:
            kept[:, keep.index(epoch)] = cohort.rows()
        if epoch == keep[-1] or time.monotonic() - saved > SAVE_PAUSE:
            file.save({"kept": kept, **pack(optimizer)}, {"done": epoch})
            saved = time.monotonic()


@contextlib.contextmanager
def _tf32_products() -> Iterator[None]:
    """Let GPUs multiply in TF32, which rounds the factors to 10 bits."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def nodes_shown(settings: ExpertSettings, epoch: int, nodes: int) -> int:
    """How many of the training nodes, easy ones first, are learned from in this epoch."""
    share, done = settings.easy_share, epoch / settings.pace_epochs
    match settings.pace:
        case "linear":
            share = share + (1 - share) * done
        case "root":
            share = math.sqrt(share**2 + (1 - share**2) * done)
        case "geom":
            share = share ** (1 - done)
        case _:
            share = 1.0
    return max(1, int(min(1.0, share) * nodes))


def easy_first(adjacency: Adjacency, train: Tensor, label: Tensor, classes: int) -> Tensor:
    """The training nodes (as places in ``train``) by the entropy of the classes in their closed neighbourhood.

    Args:
        adjacency: of the graph.
        train: node numbers.
        label: [N] a class for every node, known or predicted. (GEOM's own code reads the true labels of all nodes,
            test nodes among them.)
        classes: C.
    """
    if int(label.min()) < 0:
        raise LabelError("a node without a class cannot tell how hard its neighbours are: predict one for every node")
    row, col = adjacency.row.to(torch.int64), adjacency.col.to(torch.int64)
    count = torch.zeros(adjacency.num_nodes * classes, device=row.device)
    count = count.index_add_(0, row * classes + label[col], torch.ones_like(row, dtype=torch.float32)).view(-1, classes)
    share = count[train] / count[train].sum(1, keepdim=True)
    return torch.special.entr(share).sum(1).argsort(stable=True)
