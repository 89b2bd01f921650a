"""Settings of gradient matching, and those published for the graphs of the literature."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plgc.graphs.catalog import normalised
from plgc.runtime.options import check_ranges


@dataclass(frozen=True)
class GradientSettings:
    """Settings of gradient matching; the defaults are those published for Cora and Citeseer.

    Attributes:
        epochs: how many models θ_0 are drawn.
        outer_steps: steps of X' or Φ in an epoch.
        inner_steps: steps of the model between two of these.
        feature_rate: Adam's learning rate on X'.
        adjacency_rate: Adam's learning rate on Φ.
        model_rate: Adam's learning rate on θ.
        hops: L, how often features are propagated (never in DC-Graph).
        transforms: linear maps in a model; 1 is SGC.
        hidden: width between them.
        adjacency_hidden: hidden width of g_Φ.
        adjacency_period: epochs in a cycle of which the first ``adjacency_epochs`` move Φ and the others X'.
        adjacency_epochs: see ``adjacency_period``.
        threshold: δ; weaker edges of A' are left out of the result.
        batch: how many training nodes of a class an outer step reads, drawn anew where there are more.
        evaluate: epochs after which a GCN is trained on the condensed graph, to keep the best by validation labels
            or, without any, by the training labels; the last epoch always is one of them.
    """

    epochs: int = 600
    outer_steps: int = 20
    inner_steps: int = 15
    feature_rate: float = 1e-4
    adjacency_rate: float = 1e-4
    model_rate: float = 0.01
    hops: int = 2
    transforms: int = 1
    hidden: int = 256
    adjacency_hidden: int = 128
    adjacency_period: int = 50
    adjacency_epochs: int = 10
    threshold: float = 0.05
    batch: int = 256
    evaluate: tuple[int, ...] = (1, 5, 20, 100, 200, 400, 600, 800, 1000)

    def __post_init__(self) -> None:
        check_ranges(
            self,
            {
                "epochs outer_steps hops transforms hidden adjacency_hidden adjacency_period batch": "[1, inf)",
                "inner_steps adjacency_epochs": "[0, inf)",
                "feature_rate adjacency_rate model_rate": "(0, inf)",
                "threshold": "[0, 1)",
            },
        )


# Where features are not scaled row by row, entries are of order 1 and the published rates larger.
DENSE = GradientSettings(
    epochs=1000,
    inner_steps=3,
    feature_rate=0.01,
    adjacency_rate=0.01,
    transforms=2,
    adjacency_hidden=256,
    threshold=0.01,
)
PUBLISHED = {
    "cora": GradientSettings(),
    "citeseer": GradientSettings(),
    "pubmed": GradientSettings(inner_steps=10),
    "ogbn-arxiv": DENSE,
    "flickr": replace(DENSE, feature_rate=0.005, adjacency_rate=0.005, outer_steps=10, inner_steps=1),
    "reddit": replace(DENSE, feature_rate=0.1, adjacency_rate=0.1, outer_steps=10, inner_steps=1, transforms=1),
}


def published_settings(method: str, name: str, scaling: str) -> GradientSettings:
    """The settings published for a graph; for others those of Cora or, without row scaling, of ogbn-arxiv.

    DC-Graph's models are MLPs with a hidden layer on every graph.
    """
    settings = PUBLISHED.get(normalised(name), DENSE if scaling == "none" else GradientSettings())
    return replace(settings, transforms=2) if method == "dc-graph" else settings
