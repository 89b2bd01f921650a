"""One small graph for all rivals, and what every method makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs import TrainingLabels, citation_graph, load_graph, training_labels
from plgc.rivals import coreset
from plgc.rivals.frame import RivalRun
from plgc.rivals.gradient import condense as gradient
from plgc.rivals.trajectory import condense as trajectory
from quick_rivals import CLASSES, FEATURES, NODES, condense

KNOWN: dict[tuple[str, str, int], Tensor] = {}


@pytest.fixture(scope="module", autouse=True)
def _short_training() -> Iterator[None]:
    """The GCNs that rivals train on the way take most of the time: shorter, and each of them once."""

    def once(train: Callable[[RivalRun], Tensor]) -> Callable[[RivalRun], Tensor]:
        def output(run: RivalRun) -> Tensor:
            key = run.fingerprint, run.labels.digest(), run.seed
            if key not in KNOWN:
                KNOWN[key] = train(run)
            return KNOWN[key].clone()

        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "ON_CONDENSED", replace(gradient.ON_CONDENSED, epochs=40))
        for module in (coreset, trajectory):
            patch.setattr(module, "class_output", once(coreset.class_output))
        yield


@pytest.fixture(scope="session")
def graph() -> Data:
    """150 nodes, 3 classes; shared, so no test may change it."""
    return load_graph(citation_graph(nodes=NODES, classes=CLASSES, features=FEATURES))


@pytest.fixture(scope="session")
def labels(graph: Data) -> TrainingLabels:
    return training_labels(graph)


@pytest.fixture(scope="session")
def made(graph: Data, labels: TrainingLabels) -> dict[str, CondensedGraph]:
    """What every method makes of the graph, with seed 0; made when it is needed."""

    class Made(dict[str, CondensedGraph]):
        def __missing__(self, name: str) -> CondensedGraph:
            self[name] = condense(name, graph, labels)
            return self[name]

    return Made()


@pytest.fixture(scope="session")
def weighted(graph: Data) -> Data:
    """The graph with features that tell its nodes apart and weights on its edges; shared, so no test may change it."""
    other = graph.clone()
    x = graph["x"].to_dense()
    other.x = (x + 0.01 * torch.arange(1, NODES + 1)[:, None] * (torch.arange(FEATURES) == 0)).to_sparse_csr()
    row, column = graph["edge_index"]
    other.edge_weight = 1 + 0.01 * torch.minimum(row, column) + 0.001 * torch.maximum(row, column)
    return other
