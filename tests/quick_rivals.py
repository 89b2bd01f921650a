"""Settings that make every method quick on the small graph of these tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs import TrainingLabels
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.rivals.ctgc.settings import CTGCSettings
from plgc.rivals.distribution import DistributionSettings
from plgc.rivals.gradient.settings import GradientSettings
from plgc.rivals.methods import METHODS, condense_with
from plgc.rivals.partition import CGCSettings, GECCSettings
from plgc.rivals.trajectory.settings import ExpertSettings, TrajectorySettings
from quick import PLAIN

NODES, FEATURES, CLASSES, KEPT = 150, 40, 3, 12
OURS = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=16, width=16),),
    pseudo_labels=PseudoLabelSettings(rounds=2, round_epochs=5),
)
GRADIENT = GradientSettings(
    epochs=3, outer_steps=4, inner_steps=3, feature_rate=0.003, hidden=8, adjacency_hidden=6, evaluate=()
)
EXPERT = ExpertSettings(experts=3, epochs=50, optimizer="adam", learning_rate=1e-2, hidden=8)
SFGC = TrajectorySettings(
    EXPERT,
    iterations=8,
    expert_epochs=20,
    student_steps=6,
    student_rate=1.0,
    feature_rate=1e-2,
    starts=30,
    start_step=10,
)
GEOM = replace(
    SFGC,
    expert=replace(EXPERT, pace="geom", easy_share=0.5, pace_epochs=20),
    window=1,
    label_rate=1e-2,
    knowledge=0.1,
    choose_every=3,
    choice_epochs=21,
)
QUICK: dict[str, Any] = {
    "plgc": OURS,
    "ctgc": CTGCSettings(
        width=16, pretrain_epochs=60, rounds=2, round_epochs=10, inversion_steps=60, rebuild_epochs=60, kmeans_steps=5
    ),
    "gecc": GECCSettings(restarts=4),
    "cgc-x": CGCSettings(temperature=0.05, restarts=3),
    "gcdm-x": DistributionSettings(networks=12, steps=3, hidden=16, checks=4, check_epochs=15),
    "dc-graph": GRADIENT,
    "gcond-x": GRADIENT,
    "gcond": GRADIENT,
    "sfgc": SFGC,
    "geom": GEOM,
}


def condense(
    name: str, graph: Data, labels: TrainingLabels | None = None, *, nodes: int = KEPT, seed: int = 0, **options: Any
) -> CondensedGraph:
    """With quick settings, or those given."""
    given = labels if METHODS[name].supervised else None
    options = {"settings": QUICK.get(name), **options}
    return condense_with(name, graph, nodes=nodes, seed=seed, labels=given, **options)
