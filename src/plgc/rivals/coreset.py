"""Coresets: keep some of a graph's own nodes, chosen at random, by herding or by k-center.

The graph condensation papers choose class by class, in proportion to the training labels, by the output of a GCN
trained on these. The label-free variants (``y=None``) choose from all training nodes alike, by propagated features.

Only ``y[candidates]`` is ever read. Ties go to the smaller node number; the order of the candidates does not matter.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.downstream.tasks.classifier import train_classifier
from plgc.graphs.attributes import attribute
from plgc.graphs.views.inductive import induced_subgraph
from plgc.rivals.frame import RivalRun, accuracy_on
from plgc.rivals.scaling import with_chosen_scaling
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import scale_rows


def condense_by_choice(run: RivalRun) -> CondensedGraph:
    """Keep some of the training nodes, at most as many as have a label, and the edges among them.

    The method's name is the rule, ``random``, ``herding`` or ``kcenter``, with ``-labelfree`` where labels are only
    attached afterwards. The seed is that of the random choice, or of the GCN.
    """
    run = with_chosen_scaling(run)
    rule, _, variant = run.method.partition("-")
    labels, bare = run.labels, run.graph
    y = None if variant == "labelfree" else labels.y
    if rule == "random":
        chosen = random_nodes(labels.train, y, run.nodes, torch.Generator().manual_seed(run.seed))
    else:
        embedding = propagated_features(run.inputs) if y is None else class_output(run)
        choose = herding_nodes if rule == "herding" else kcenter_nodes
        chosen = choose(embedding.cpu(), labels.train, y, run.nodes)
    mask = torch.zeros(bare.num_nodes, dtype=torch.bool)
    mask[chosen] = True
    graph = Data(bare.x, bare.edge_index, edge_weight=bare.edge_weight, num_nodes=bare.num_nodes)
    kept = induced_subgraph(graph, mask)
    assert kept.x is not None
    features = scale_rows(kept.x.to(torch.float32), run.scaling)
    return run.finish(
        features.to_dense() if features.layout == torch.sparse_csr else features,
        torch.ones(len(features), dtype=torch.int64),
        labels=labels.y[mask],
        edge_index=kept.edge_index,
        edge_weight=attribute(kept, "edge_weight"),
    )


def class_output(run: RivalRun) -> Tensor:
    """Log-probabilities of every node from a GCN trained on the labels, the best epoch by validation if given."""
    labels, inputs = run.labels, run.inputs
    train = labels.train.to(inputs.device)
    model = train_classifier(
        inputs.x,
        inputs.adjacency,
        train,
        labels.y.to(inputs.device)[train],
        labels.classes,
        scaling=run.scaling,
        seed=run.seed,
        score=accuracy_on(inputs, labels.val, labels.y) if labels.val.numel() else None,
    )
    return model.probabilities(inputs).clamp(min=1e-12).log()


def class_shares(y: Tensor, candidates: Tensor, count: int) -> dict[int, int]:
    """How many nodes of every class to keep, in proportion to the classes among the candidates.

    A class whose share is below one node gets one; the others divide the rest in proportion to their sizes, rounded
    by the largest remainder (the smaller class number first where remainders are equal). No class gets more than it
    has, and the shares sum to ``min(count, len(candidates))``. (The condensation papers' code rounds down and gives
    the rest to the largest class.)

    Args:
        y: [N] class of every node; only those of the candidates are read.
        candidates: node numbers to choose from, without repetition.
        count: how many nodes to keep in all.

    Raises:
        LabelError: fewer nodes than classes, or a candidate without a label.
    """
    candidates = _checked(candidates, count)
    labels, sizes = _candidate_labels(y, candidates).unique(return_counts=True)
    size = dict(zip(labels.tolist(), sizes.tolist(), strict=True))
    if count < len(size):
        raise LabelError(
            f"{count} node(s) for {len(size)} classes: every class keeps at least one, so ask for {len(size)} or more"
        )
    left, pool, open_classes, share = min(count, candidates.numel()), candidates.numel(), sorted(size), {}
    while small := [label for label in open_classes if left * size[label] < pool]:
        share |= dict.fromkeys(small, 1)
        open_classes = [label for label in open_classes if label not in share]
        left, pool = left - len(small), pool - sum(size[label] for label in small)
    share |= {label: left * size[label] // pool for label in open_classes}
    by_remainder = sorted(open_classes, key=lambda label: (-(left * size[label] % pool), label))
    for label in by_remainder[: left - sum(share[label] for label in open_classes)]:
        share[label] += 1
    return dict(sorted(share.items()))


def class_counts(y: Tensor, node_labels: Tensor) -> Tensor:
    """How many training nodes each synthetic node represents: those of its class, divided as evenly as possible."""
    counts = torch.zeros(len(node_labels), dtype=torch.int64)
    for label in node_labels.unique().tolist():
        own = (node_labels == label).nonzero().flatten()
        whole, rest = divmod(int((y == label).sum()), len(own))
        counts[own] = whole
        counts[own[:rest]] += 1
    return counts


def random_nodes(candidates: Tensor, y: Tensor | None, count: int, generator: torch.Generator) -> Tensor:
    """Choose nodes uniformly at random, within every class where ``y`` is given; sorted node numbers.

    Args:
        candidates: node numbers to choose from, without repetition.
        y: [N] class of every node, read for the candidates alone; None: one pool without classes.
        count: how many nodes to keep; all candidates where there are fewer.
        generator: a CPU generator, the only source of randomness.
    """

    def choose(members: Tensor, number: int) -> Tensor:
        return torch.randperm(members.numel(), generator=generator)[:number]

    return _per_class(candidates, y, count, choose)


def herding_nodes(embedding: Tensor, candidates: Tensor, y: Tensor | None, count: int) -> Tensor:
    """Choose nodes whose mean follows the mean of their class (herding; Welling, 2009); sorted node numbers.

    Greedily, the next node v is the one that brings the mean of the chosen ones closest to the class mean μ:
    argmin ‖μ − (Σ_chosen z + z_v) / (t + 1)‖. With the embedding centred on μ this is argmin ‖z_v‖² + 2 z_v·s, s the
    sum of the chosen rows: one product of the embedding with a vector for every node chosen. Arguments are those of
    :func:`random_nodes`, and the dense embedding of all nodes, [N, d].
    """
    return _per_class(candidates, y, count, lambda members, number: _herd(_rows(embedding, members), number))


def kcenter_nodes(embedding: Tensor, candidates: Tensor, y: Tensor | None, count: int) -> Tensor:
    """Choose nodes that cover their class (greedy k-center; Sener & Savarese, 2018); sorted node numbers.

    The first is the node nearest to the class mean; each next one is the node farthest from all chosen so far. The
    largest distance left is at most twice the smallest possible for that many centers (Gonzalez, 1985). Distances to
    the chosen are kept as a running minimum: one product of the embedding with a vector for every node chosen.
    Arguments are those of :func:`herding_nodes`.
    """
    return _per_class(candidates, y, count, lambda members, number: _cover(_rows(embedding, members), number))


def _herd(z: Tensor, number: int) -> Tensor:
    """Places of the herded rows of a centred [n, d] matrix, in the order they are chosen."""
    score = z.square().sum(dim=1)  # ‖z_v‖² + 2 z_v·s
    chosen = torch.empty(number, dtype=torch.int64, device=z.device)
    for turn in range(number):
        chosen[turn] = pick = score.argmin()
        score.add_(z @ z[pick], alpha=2.0)
        score[chosen[: turn + 1]] = torch.inf
    return chosen


def _cover(z: Tensor, number: int) -> Tensor:
    """Places of the k-center rows of a centred [n, d] matrix, in the order they are chosen."""
    norm = z.square().sum(dim=1)
    chosen = torch.empty(number, dtype=torch.int64, device=z.device)
    nearest = torch.full_like(norm, torch.inf)  # squared distance to the nearest chosen row
    pick = norm.argmin()
    for turn in range(number):
        chosen[turn] = pick
        distance = torch.addmv(norm, z, z[pick], alpha=-2.0).add_(norm[pick]).clamp_(min=0.0)
        torch.minimum(nearest, distance, out=nearest)
        nearest[pick] = -1.0  # below every distance: chosen once, also among equal rows
        pick = nearest.argmax()
    return chosen


def _per_class(candidates: Tensor, y: Tensor | None, count: int, choose: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Let ``choose(members, number)`` pick places among the members of every class, or of the one pool."""
    candidates = _checked(candidates, count)
    if y is None:
        groups = [(candidates, min(count, candidates.numel()))]
    else:
        labels = _candidate_labels(y, candidates)
        shares = class_shares(y, candidates, count)
        groups = [(candidates[labels == label], number) for label, number in shares.items()]
    return torch.cat([members[choose(members, number).cpu()] for members, number in groups]).sort().values


def _checked(candidates: Tensor, count: int) -> Tensor:
    if candidates.numel() == 0:
        raise SettingError("there are 0 candidates to choose nodes from: give at least one node number")
    if count < 1:
        raise SettingError(f"count={count}: keep at least one node")
    return candidates.cpu().to(torch.int64).sort().values


def _candidate_labels(y: Tensor, candidates: Tensor) -> Tensor:
    labels = y[candidates.to(y.device)].cpu()
    bad = (labels < 0).nonzero().flatten()
    if bad.numel():
        raise LabelError(
            f"candidate node {int(candidates[bad[0]])} has label {int(labels[bad[0]])}: choose by class among labelled "
            "nodes only, or give y=None to choose without labels"
        )
    return labels


def _rows(embedding: Tensor, members: Tensor) -> Tensor:
    """The members' rows, centred on their mean."""
    z = embedding[members.to(embedding.device)].detach()
    return z - z.mean(dim=0)
