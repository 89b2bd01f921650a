"""Clustering: k-means on frozen embeddings, compared with the classes. scikit-learn is an extra, imported on use.

Without labels nothing can weigh the parts of an embedding. The learned ones are taken as the file has them, every
encoder alike, and the input beside them is left out; an embedding without learned parts is taken whole.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from plgc.downstream.embedder import unit_parts
from plgc.runtime.errors import LabelError, MissingExtraError, SettingError

RESTARTS = 10


def cluster_nodes(embedding: Tensor, parts: Mapping[str, int], clusters: int, seed: int) -> Tensor:
    """Assign every node to one of ``clusters`` groups by k-means, the best of ten starts.

    Args:
        embedding: frozen embeddings of every node, [N, Σ parts]; what is taken is centred and scaled as for heads.
        parts: widths of the embedding's parts, by name.
        clusters: k, how many groups; the number of classes where they are to be compared.
        seed: of the starting points.

    Returns:
        The group of every node, int64 [N], on the CPU.
    """
    nodes = embedding.shape[0]
    if not 1 <= clusters <= nodes:
        raise SettingError(f"clusters is {clusters}: it must lie between 1 and the number of nodes, {nodes}")
    pieces = dict(zip(parts, embedding.split(list(parts.values()), dim=1), strict=True))
    learned = [pieces[name] for name in ("learned", "learned_plain") if name in pieces]
    if learned:
        embedding = torch.cat(learned, dim=1)
        parts = {"learned": embedding.shape[1]}
    rows = unit_parts(embedding, embedding.mean(0), parts).cpu().numpy()
    found = _sklearn("cluster").KMeans(n_clusters=clusters, n_init=RESTARTS, random_state=seed).fit_predict(rows)
    return torch.from_numpy(found).long()


def score_clusters(assigned: Tensor, y: Tensor) -> dict[str, float]:
    """Agreement of groups with classes over the labelled nodes (y ≥ 0): NMI, 0–1, and the adjusted Rand index (ARI).

    Both are 1 where groups and classes are the same up to their names; ARI is 0 on average for a random grouping.
    """
    if assigned.shape != y.shape:
        raise SettingError(
            f"assigned has shape {list(assigned.shape)}, y has {list(y.shape)}: give one group and one label per node"
        )
    labelled = (y >= 0).cpu()
    if not bool(labelled.any()):
        raise LabelError(f"none of the {y.numel()} nodes has a label: there is nothing to compare the clusters with")
    metrics = _sklearn("metrics")
    groups, classes = assigned.cpu()[labelled].numpy(), y.cpu()[labelled].numpy()
    return {
        "nmi": float(metrics.normalized_mutual_info_score(classes, groups)),
        "ari": float(metrics.adjusted_rand_score(classes, groups)),
    }


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingExtraError("clustering needs scikit-learn: pip install 'plgc[cluster]'") from error
