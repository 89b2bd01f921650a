"""Random graphs at the edge of what numbers can be: each is refused with a message, or works and gives numbers.

``PLGC_EXTREME`` sets how many are tried.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import plgc
from plgc.runtime.errors import PLGCError
from quick import PLAIN, quick

TRIES = int(os.environ.get("PLGC_EXTREME", "20"))
LATE = "refused after the work"
SETTINGS = quick(8, hidden=8, rounds=1, epochs=2, plain=PLAIN)
SIZES = [
    10.0**power for power in (-45, -38, -30, -20, -12, -9, -7, -5, -3, 0, 3, 6, 9, 12, 15, 17, 18, 19, 20, 25, 30, 37)
]
VALUES = [0.0, *SIZES, 3e38, np.inf, np.nan, -1.0, -1e-20, -1e10, -1e20, -1e38, -np.inf]
OPTIONS: list[dict[str, Any]] = [{}, {}, {}, {"min_cluster": 2}, {"memory": "2GiB"}, {"clip": 1.0, "noise": 0.5}]


def features(draw: np.random.Generator, nodes: int, width: int) -> np.ndarray:
    """All of one size, of every size, or one value that stands out."""
    kind = draw.integers(4)
    if kind == 0:
        return draw.random((nodes, width)) * draw.choice(VALUES)
    if kind == 1:
        return draw.standard_normal((nodes, width)) * draw.choice(SIZES)
    if kind == 2:
        return draw.choice(VALUES, (nodes, width))
    x = draw.standard_normal((nodes, width)) * draw.integers(2)
    x[draw.integers(nodes), draw.integers(width)] = draw.choice(VALUES)
    return x


def arrays(draw: np.random.Generator) -> dict[str, Any]:
    """A graph of 1 to 60 nodes as the arrays of an npz file."""
    nodes, width = int(draw.choice([1, 2, 3, 4, 5, 8, 20, 60])), int(draw.choice([1, 2, 3, 8, 40]))
    edges = int(draw.choice([0, 1, 2, nodes, 3 * nodes]))
    x = features(draw, nodes, width).astype(draw.choice([np.float16, np.float32, np.float64]))
    found: dict[str, Any] = {"edge_index": draw.integers(0, nodes, (2, edges)), "x": x}
    if draw.random() < 0.3:
        matrix = sp.csr_matrix(found.pop("x").astype(np.float32))
        parts = {
            "indptr": matrix.indptr,
            "indices": matrix.indices,
            "data": matrix.data,
            "shape": np.array([nodes, width]),
        }
        found |= {f"x_{key}": value for key, value in parts.items()}
    if draw.random() < 0.4:
        found["edge_weight"] = draw.choice([draw.random(edges) * draw.choice(SIZES), draw.choice(VALUES, edges)])
    if draw.random() < 0.8:
        found["y"] = draw.integers(-1, draw.choice([1, 2, 3, nodes + 1, 200]), nodes)
    if draw.random() < 0.1:
        found["y"] = draw.choice([0, 1, -1, 5, 2**31, 2**62, -5], nodes)
    if draw.random() < 0.2:
        found["train_mask"] = draw.random(nodes) < 0.5
    return found


def outcome(path: Path, seed: int) -> str:
    """Make a graph, and take it from its file to predictions; how far it came."""
    draw, step = np.random.default_rng(seed), "loading"
    with np.errstate(all="ignore"):
        np.savez(path, **arrays(draw))
    try:
        graph = plgc.load_graph(path)
        step, count = "condensing", int(draw.choice([2, 3, graph.num_nodes]))
        condensed = plgc.condense(graph, nodes=count, seed=seed, settings=SETTINGS, **draw.choice(OPTIONS))
        condensed.to_bytes()
        step = "training"
        model = plgc.finetune(plgc.reconstruct(condensed), graph)
        assert bool(torch.isfinite(model.predict_proba(graph)).all())
    except PLGCError as error:
        return LATE if "left the range of numbers" in str(error) else f"refused in {step}"
    return "works"


@pytest.mark.filterwarnings("ignore")
def test_extreme_graphs(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(TRIES):
        try:
            found[outcome(tmp_path / "g.npz", seed)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    print(f"extreme: {TRIES} graphs, {found['works']} work, {TRIES - found['works']} refused ({dict(found)})")
    assert found["works"] > 0
    assert found[LATE] == 0
