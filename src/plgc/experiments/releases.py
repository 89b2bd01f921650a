"""Condensed graphs that the membership experiment attacks, by name: from our defaults to the real nodes themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation.membership import infer_membership, publish_members
from plgc.method.condense import condense
from plgc.method.release import privatise
from plgc.runtime.errors import SettingError

CLIP = 0.1
Condenser = Callable[[Data, int, int, str], CondensedGraph]  # of a graph, a size, a seed and a device


def _condensed(**options: Any) -> Condenser:
    return lambda graph, nodes, seed, device: condense(
        graph, nodes=nodes, seed=seed, device=device, progress=False, **options
    )


def _noisy(noise: float) -> Condenser:
    make = _condensed(min_cluster=5)
    # A seed, so that the experiment can be repeated; owners' noise comes from the system's entropy.
    return lambda graph, nodes, seed, device: privatise(
        make(graph, nodes, seed, device), clip=CLIP, noise=noise, seed=seed
    )


RELEASES: dict[str, Condenser] = {
    "default": _condensed(),
    "paper": _condensed(preset="paper"),
    "min-cluster-5": _condensed(min_cluster=5),
    "private": _condensed(private=True),
    "max-share-0.2": _condensed(min_cluster=5, max_share=0.2),
    "noise-0.05": _noisy(0.05),
    "noise-0.1": _noisy(0.1),
    "real-nodes": lambda graph, nodes, seed, device: publish_members(graph, seed),
}


def attack_release(name: str, graph: Data, nodes: int, seed: int, device: str) -> dict[str, float]:
    """Metrics of the strongest attack on a release, and the AUC of each attack by itself."""
    if name not in RELEASES:
        raise SettingError(f"unknown release {name!r}: choose {', '.join(RELEASES)}")
    found = infer_membership(
        graph, lambda part, own: RELEASES[name](part, nodes, own, device), seed=seed, device=device
    )
    each = {f"auc_{attack}": result["auc"] for attack, result in found["attacks"].items()}
    return {"auc": found["auc"], "tpr": found["tpr"], **each}
