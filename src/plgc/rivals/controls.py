"""References, without condensation: four controls, the encoder of stage I, and networks trained on the whole graph.

A reference is a function ``(case, options)`` that gives an :class:`Embedder`, as a rebuilt :class:`plgc.Backbone` is
one, so that every task and head takes them alike. The controls have learned nothing: a method has to beat the best of
them. What a file adds is the difference to ``plain_parts``, the head on all it has without a file: X, ÂX and Â²X.
``ssl`` is stage I by itself, before anything is condensed: the difference to it is what condensation loses, or gains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import BESIDE, LEARNED, beside_input, propagated_features
from plgc.downstream.embedder import Embedder
from plgc.downstream.stored_embedding import StoredEmbedding, stored_embedding
from plgc.downstream.tasks.classifier import Classifier, train_classifier
from plgc.downstream.tasks.metrics import auroc
from plgc.graphs.bare import bare_graph
from plgc.graphs.load import node_labels
from plgc.graphs.views.protocol import Case
from plgc.method.alternate import alternate
from plgc.method.batches import TrainingGraph
from plgc.method.condense import resolve_count
from plgc.method.encoder import EDGE_FREE, GNN
from plgc.method.resume import Run
from plgc.method.settings import CondenseSettings
from plgc.method.settings import preset as preset_named
from plgc.method.stage_one import StageOne, embed
from plgc.rivals.frame import accuracy_on
from plgc.rivals.scaling import TRIED
from plgc.runtime.errors import GraphError, LabelError, SettingError
from plgc.runtime.progress import silent
from plgc.sparse.inputs import Inputs, prepare, resolve_scaling
from plgc.sparse.prepared import PreparedGraphs
from plgc.sparse.stored_inputs import StoredInputs

CONTROL_WIDTH = 512


@dataclass(frozen=True)
class LearnOptions:
    """How a model is made from a case, or from condensed files.

    Attributes:
        nodes: K, for ``ssl``, whose prototypes depend on it.
        preset: for ``ssl``.
        kind: the kind of GNN.
        seed: of initial weights.
        device: where to compute.
        metric: what validation nodes choose by, in training end to end: ``accuracy``, or ``auroc`` of two classes.
        combine: how several files are combined, see :func:`plgc.reconstruct`; those with labels are put together.
        weights: of several files.
        prepared: a cache of the case's graphs, shared between methods.
    """

    nodes: int | None = None
    preset: str = "default"
    kind: str = "gcn"
    seed: int = 0
    device: str = "cpu"
    metric: str = "accuracy"
    combine: str | None = None
    weights: Sequence[float] | None = None
    prepared: PreparedGraphs | None = None


@dataclass(frozen=True, eq=False)
class Reference(Embedder):
    """An embedder that is a function of the prepared graph.

    Attributes:
        function: from features and Â to the embedding [N, Σ parts].
        num_features: f.
        parts: widths of the embedding's parts, by name.
        scaling: of the rows of X.
        where: the device.
        uses_edges: False where neither the function nor the head may see the edges.
        networks: by part, what computes it of a graph on disk; other parts are X, ÂX and Â²X.
        on_disk: whether parts and networks say all that the function does.
    """

    function: Callable[[Inputs], Tensor]
    num_features: int
    parts: Mapping[str, int]
    scaling: str
    where: str = "cpu"
    uses_edges: bool = True
    networks: Mapping[str, GNN] = field(default_factory=dict)
    on_disk: bool = True

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return torch.device(self.where)

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """The embedding of every node."""
        return self.function(graph)

    def embed_stored(self, graph: StoredInputs) -> StoredEmbedding:
        """The embedding of every node of a graph on disk."""
        if not self.on_disk:
            return super().embed_stored(graph)
        return stored_embedding(graph, self.parts, self.networks)


def propagated(case: Case, options: LearnOptions) -> Reference:
    """The control ``propagated_features``: Â²X."""
    width, scaling = _features(case)
    return Reference(propagated_features, width, {"propagated_2": width}, scaling, options.device)


def raw_features(case: Case, options: LearnOptions) -> Reference:
    """The control ``raw_features``: X, and a head that sees no edges either: its predictions are not smoothed over Â.

    Clusters are those of X. To predict links, which are edges, the pair head still counts every node's training edges.
    """
    width, scaling = _features(case)
    return Reference(_plain_features, width, {"x": width}, scaling, options.device, uses_edges=False)


def plain_parts(case: Case, options: LearnOptions) -> Reference:
    """The control ``plain_parts``: X, ÂX and Â²X, all parts that a backbone has beside what it learned."""
    width, scaling = _features(case)
    return Reference(beside_input, width, dict.fromkeys(BESIDE, width), scaling, options.device)


def random_encoder(case: Case, options: LearnOptions) -> Reference:
    """The control ``random_encoder``: a GNN with random weights."""
    width, scaling = _features(case)
    generator = torch.Generator().manual_seed(options.seed)
    gnn = GNN(options.kind, width, CONTROL_WIDTH, CONTROL_WIDTH, generator=generator).to(options.device)
    parts = {"learned": CONTROL_WIDTH}
    return Reference(
        lambda graph: gnn(graph.x, graph.adjacency), width, parts, scaling, options.device, networks={"learned": gnn}
    )


def ssl(case: Case, options: LearnOptions) -> Reference:
    """The frozen encoders of stage I, with the same parts beside them as a rebuilt backbone."""
    if options.nodes is None:
        raise SettingError("ssl needs the number of prototypes: give nodes")
    settings = preset_named(options.preset)
    stage, scaling = train_stage_one(case.seen, options.nodes, settings, options.seed, options.device)
    width, parts = _features(case)[0], dict[str, int]()
    for channel, block in zip(stage.channels, stage.blocks, strict=True):
        parts[LEARNED[channel]] = parts.get(LEARNED[channel], 0) + block
    if options.preset == "paper":
        return Reference(lambda graph: embed(stage, graph), width, parts, scaling, options.device, on_disk=False)
    parts |= dict.fromkeys(BESIDE, width)
    both = lambda graph: beside_input(graph, embed(stage, graph))  # noqa: E731
    return Reference(both, width, parts, scaling, options.device, on_disk=False)


def train_stage_one(
    source: Data, nodes: int, settings: CondenseSettings, seed: int = 0, device: str = "cpu"
) -> tuple[StageOne, str]:
    """Stage I as a condensation to ``nodes`` would train it, and the scaling of its features. Labels are not read."""
    bare = bare_graph(source, condensable=False)
    count = resolve_count(bare.num_nodes, None, nodes)
    scaling = resolve_scaling(bare.x, settings.scaling)
    run = Run(settings.pseudo_labels, silent)
    graph = TrainingGraph(prepare(bare, scaling, device))
    return alternate(graph, count, settings, seed, run, stage_two=False).stage, scaling


def train_whole(case: Case, options: LearnOptions) -> Classifier:
    """A GNN trained end to end on everything that a condensation would have seen.

    Validation nodes choose the epoch and the scaling of the features' rows: as ``auto`` has it, none, or sums of one.
    Where their labels may not be used, the scaling is that of ``auto``.
    """
    if case.given is None:
        raise LabelError("the graph has no labels: a GNN cannot be trained on it end to end")
    prepared = options.prepared or PreparedGraphs()
    train, y = case.given.train.to(options.device), case.given.y.to(options.device)
    best, best_score = None, float("-inf")
    for scaling in dict.fromkeys((_features(case)[1], *TRIED)):
        try:
            inputs = prepared.inputs(case.seen, scaling, options.device)
        except GraphError:
            if best is None:
                raise
            continue  # raw values that are too large or too small to compute with
        score = validation_score(case, scaling, options.device, prepared, options.metric)
        model = train_classifier(
            inputs.x,
            inputs.adjacency,
            train,
            y[train],
            case.given.classes,
            scaling=scaling,
            kind=options.kind,
            seed=options.seed,
            score=score,
        )
        if score is None:
            return model
        value = score(model)
        if best is None or value > best_score:
            best, best_score = model, value
    assert best is not None
    return best


def train_whole_mlp(case: Case, options: LearnOptions) -> Classifier:
    """A network without edges, trained end to end on the same nodes in the same way."""
    return train_whole(case, replace(options, kind=EDGE_FREE))


def validation_score(
    case: Case, scaling: str, device: str, prepared: PreparedGraphs, metric: str = "accuracy"
) -> Callable[[Classifier], float] | None:
    """A metric on the validation nodes, for keeping the best epoch; None where the protocol has no such labels."""
    if not case.validate or case.split is not None:
        return None
    inputs, y = prepared.inputs(case.visible, scaling, device), node_labels(case.graph)
    nodes = (case.graph["val_mask"] & (y >= 0)).nonzero().flatten()
    if metric != "auroc":
        return accuracy_on(inputs, nodes, y)
    nodes, positive = nodes.to(inputs.device), y[nodes].to(inputs.device) == 1
    return lambda model: auroc(model.probabilities(inputs)[nodes, 1], positive)


def _plain_features(graph: Inputs) -> Tensor:
    """X as a dense matrix."""
    return propagated_features(graph, 0)


def _features(case: Case) -> tuple[int, str]:
    """How many there are, and how their rows are scaled."""
    assert case.seen.x is not None
    return case.seen.x.shape[1], resolve_scaling(case.seen.x, "auto")
