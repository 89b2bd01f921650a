"""The settings of CTGC (:mod:`plgc.rivals.ctgc.condense`), and those published for each graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plgc.graphs.catalog import normalised
from plgc.runtime.options import check_ranges
from plgc.sparse.inputs import SCALINGS

MATCHES = ("mse", "contrast")


@dataclass(frozen=True)
class CTGCSettings:
    """How CTGC condenses and is rebuilt; the public code's values for Cora.

    Attributes:
        scaling: of the features' rows; the public code takes bags of words as they are.
        width: of hidden layers, embeddings and centroids.
        dropout: of the GCN, while inverting too.
        weight_decay: in every minimisation.
        feature_drop: share of the feature columns hidden at every pretraining step.
        pretrain_epochs: of node discrimination.
        pretrain_rate: its learning rate.
        kmeans_steps: Lloyd's iterations on the pretrained embedding.
        rounds: turns of the two relay models.
        round_epochs: steps of each model in a turn.
        semantic_rate: learning rate of the GCN in a turn.
        structural_rate: learning rate of the MLP in a turn.
        temperature: τ, of both contrasts.
        negatives: random (node, centroid) pairs to contrast with, per node.
        repulsion: weight α of the mean ℓ_repulsion beside the *sum* of ℓ_contrast over nodes.
        low_share: share of the eigenpairs from the low end of the spectrum.
        periods: octaves of sines and cosines of the eigenvalues.
        inversion_steps: for U' and for X' each.
        inversion_rate: their learning rate.
        match: what U' and X' minimise, ``mse`` or ``contrast``.
        rebuild_epochs: of the downstream GNN.
        rebuild_rate: its learning rate, a tenth of it in the second half.
    """

    scaling: str = "none"
    width: int = 256
    dropout: float = 0.5
    weight_decay: float = 5e-4
    feature_drop: float = 0.2
    pretrain_epochs: int = 200
    pretrain_rate: float = 1e-3
    kmeans_steps: int = 25
    rounds: int = 5
    round_epochs: int = 20
    semantic_rate: float = 1e-4
    structural_rate: float = 1e-3
    temperature: float = 0.3
    negatives: int = 3
    repulsion: float = 1000.0
    low_share: float = 0.9
    periods: int = 20
    inversion_steps: int = 600
    inversion_rate: float = 1e-3
    match: str = "mse"
    rebuild_epochs: int = 600
    rebuild_rate: float = 0.01

    def __post_init__(self) -> None:
        check_ranges(
            self,
            {
                "width pretrain_epochs kmeans_steps rounds round_epochs negatives periods": "[1, inf)",
                "inversion_steps rebuild_epochs": "[1, inf)",
                "pretrain_rate semantic_rate structural_rate inversion_rate rebuild_rate temperature": "(0, inf]",
                "weight_decay repulsion": "[0, inf]",
                "dropout feature_drop": "[0, 1)",
                "low_share": "(0, 1]",
                "scaling": SCALINGS,
                "match": MATCHES,
            },
        )


PUBLISHED: dict[str, dict[str, Any]] = {
    "citeseer": {"rounds": 3, "rebuild_epochs": 800},
    "ogbn-arxiv": {"rounds": 3, "round_epochs": 50, "structural_rate": 0.1, "match": "contrast"},
    "reddit": {
        "pretrain_epochs": 20,
        "pretrain_rate": 1e-4,
        "rounds": 3,
        "round_epochs": 40,
        "semantic_rate": 1e-3,
        "structural_rate": 0.1,
        "repulsion": 10_000.0,
        "match": "contrast",
    },
}


def published_settings(name: str) -> CTGCSettings:
    """The public code's settings for a graph of the catalogue; those of Cora for any other."""
    return CTGCSettings(**PUBLISHED.get(normalised(name), {}))
