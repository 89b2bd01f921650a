"""Node classification: train a head on frozen embeddings with a few clean labels, and score predictions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import propagated_features
from plgc.downstream.embedder import Embedding
from plgc.downstream.fitting import fit_head
from plgc.downstream.head import Head
from plgc.downstream.smoothing import HeadSettings
from plgc.downstream.stored_embedding import stored_embedding
from plgc.downstream.tasks.answers import answers_on
from plgc.graphs.load import node_labels, num_classes
from plgc.sparse.inputs import Inputs
from plgc.sparse.stored_inputs import StoredInputs


def fit_head_on(
    embedding: Embedding,
    parts: Mapping[str, int],
    inputs: Inputs | StoredInputs,
    graph: Data,
    labelled: Tensor,
    validate: bool,
    settings: HeadSettings | None = None,
    *,
    uses_edges: bool = True,
) -> Head:
    """Train a head on the labels of the nodes ``labelled``; with ``validate``, validation labels weigh its experts.

    Both come from :func:`plgc.graphs.labels.choose_labels`. ``inputs`` is the graph that was embedded; with
    ``uses_edges=False`` the head sees nothing of its edges.
    """
    device = inputs.device
    y = node_labels(graph).to(device)
    known = (graph["val_mask"].to(device) & (y >= 0)).nonzero().flatten() if validate else None
    return fit_head(
        embedding,
        parts,
        labelled.to(device),
        y,
        num_classes(graph),
        adjacency=inputs.adjacency if uses_edges else None,
        x=_plain(inputs) if uses_edges and "x" not in parts and not validate else None,
        validation=known,
        settings=settings,
    )


def _plain(inputs: Inputs | StoredInputs) -> Embedding:
    """X."""
    if isinstance(inputs, StoredInputs):
        return stored_embedding(inputs, {"x": inputs.num_features})
    return propagated_features(inputs, 0)


def score_nodes(probability: Tensor, graph: Data, on: str) -> dict[str, float]:
    """Accuracy, macro-F1 and (two classes) AUROC of predicted probabilities on one part of a graph's split."""
    return answers_on(probability, graph, on).metrics()
