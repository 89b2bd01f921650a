"""Graphs at the edge of what numbers can hold, and beyond: each is condensed and learned from, or refused by name.

Whatever is written holds numbers alone. ``PLGC_GRAPHS`` sets how many are tried.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import plgc
from forgeries import tries
from plgc.downstream.backbone import BackboneSettings
from plgc.runtime.errors import PLGCError
from quick import PLAIN, quick

SECONDS = 60.0  # of computing that one graph may take
SMALL = quick(4, hidden=4, rounds=1, epochs=2, plain=PLAIN)
FEATURES = (0.0, 1.0, -1.0, 1e-45, 1e-30, 1e-8, 1e10, 1e18, 1e20, 1e30, 3e38, -3e38, 1e300, float("nan"), float("inf"))
WEIGHTS = (1.0, 0.0, -1.0, 1e-45, 1e-30, 1e18, 1e30, 3e38, float("nan"), float("inf"))
LABELS = (0, 1, 2, -1, -2, 999, 10**6, 2**31 - 1)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """The arrays of an npz file: sizes that fit, values of every kind."""
    nodes, width = draw(st.integers(1, 24)), draw(st.integers(1, 6))
    edges = draw(st.sampled_from((0, 1, 20, 60)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = random.standard_normal((nodes, width)).astype(draw(st.sampled_from((np.float32, np.float64, np.float16))))
    with np.errstate(all="ignore"):
        for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
            value = draw(st.sampled_from(FEATURES))
            if draw(st.integers(0, 3)):
                x[random.integers(nodes), random.integers(width)] = value
            else:
                x[:] = value if draw(st.booleans()) else np.abs(x) * value
    found: dict[str, Any] = {"x": x, "edge_index": random.integers(0, nodes, (2, edges)), "num_nodes": np.array(nodes)}
    if draw(st.booleans()):
        found["edge_weight"] = random.random(edges).astype(np.float32)
        if edges:
            found["edge_weight"][random.integers(edges)] = draw(st.sampled_from(WEIGHTS))
    if draw(st.booleans()):
        found["y"] = random.integers(0, 3, nodes)
        found["y"][random.integers(nodes)] = draw(st.sampled_from(LABELS))
        part = random.integers(0, 3, nodes)
        found |= {f"{name}_mask": part == place for place, name in enumerate(("train", "val", "test"))}
    return found


def test_extreme_graphs(tmp_path: Path) -> None:
    count = {"condensed": 0, "refused": 0}

    @tries("PLGC_GRAPHS", 60)
    @given(arrays=graphs(), nodes=st.integers(2, 5), seed=st.integers(0, 3))
    def attempt(arrays: dict[str, Any], nodes: int, seed: int) -> None:
        start = time.process_time()
        np.savez(tmp_path / "graph.npz", **arrays)
        try:
            graph = plgc.load_graph(tmp_path / "graph.npz")
            path = plgc.condense(graph, nodes=nodes, seed=seed, settings=SMALL).save(tmp_path / "small")
        except PLGCError:
            count["refused"] += 1
            assert time.process_time() - start < SECONDS
            return
        condensed = plgc.CondensedGraph.load(path)
        assert torch.isfinite(condensed.features).all()
        count["condensed"] += 1
        with contextlib.suppress(PLGCError):  # such as for want of labels
            backbone = plgc.reconstruct(condensed, settings=BackboneSettings(hidden=4, steps=2))
            probability = plgc.finetune(backbone, graph, shots=1).predict_proba(graph)
            assert torch.isfinite(probability).all()
        assert time.process_time() - start < SECONDS

    attempt()
    tried = sum(count.values())
    print(f"\nforged: extreme graphs: {tried} files, {count['condensed']} taken as valid, {count['refused']} refused")
    assert count["condensed"]
    assert count["refused"]
