"""Condensed graphs that the membership experiment attacks, by name: from our defaults to the real nodes themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation.membership import infer_membership, publish_members, publish_noise
from plgc.method.condense import condense
from plgc.method.release import privatise
from plgc.runtime.errors import SettingError

CLIP = 0.1
ENOUGH = 0.99  # AUC from which members are found without shadows, which then are not made
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
    "random-rows": lambda graph, nodes, seed, device: publish_noise(graph, seed, nodes),
}


def attack_release(name: str, graph: Data, nodes: int, seed: int, device: str) -> dict[str, float]:
    """Metrics of the strongest attack on a release, the AUC of each, and the words and rows that come back."""
    if name not in RELEASES:
        raise SettingError(f"unknown release {name!r}: choose {', '.join(RELEASES)}")
    found = infer_membership(
        graph, lambda part, own: RELEASES[name](part, nodes, own, device), seed=seed, enough=ENOUGH, device=device
    )
    each = {f"auc_{attack}": result["auc"] for attack, result in found["attacks"].items()}
    words, rows = found["words"], found["rows"]
    return {
        "auc": found["auc"],
        "tpr": found["tpr"],
        **each,
        "words": words["found"],
        "words_others": words["found_others"],
        "rows": rows["recovered"],
        "rows_others": rows["recovered_others"],
        "rows_exact": rows["exact"],
    }
