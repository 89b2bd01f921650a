"""Masks that overlap, ids that occur twice, and what is said of a generated split: through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plgc.graphs import load_graph

NODES = 30


def write(path: Path, **arrays: Any) -> Path:
    """A ring of 30 nodes in three classes as an npz file."""
    ring = np.arange(NODES)
    content = {
        "edge_index": np.stack([ring, (ring + 1) % NODES]),
        "x": np.random.default_rng(0).random((NODES, 6), dtype=np.float32),
        "y": ring % 3,
    }
    np.savez(path, **content, **arrays)
    return path


def masks(**parts: range) -> dict[str, np.ndarray]:
    return {f"{name}_mask": np.isin(np.arange(NODES), list(part)) for name, part in parts.items()}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"train": range(9), "val": range(9, 20), "test": range(18, 30)}, "2 node(s) are in val_mask and test_mask"),
        ({"train": range(9), "val": range(8, 20), "test": range(20, 30)}, "1 node(s) are in train_mask and val_mask"),
        ({"train": range(9), "val": range(9, 20), "test": range(5, 8)}, "3 node(s) are in train_mask and test_mask"),
    ],
)
def test_parts_of_a_split_may_not_overlap(run: Any, tmp_path: Path, parts: dict[str, range], words: str) -> None:
    graph = write(tmp_path / "g.npz", **masks(**parts))
    done = run("condense", graph, "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert not (tmp_path / "c.safetensors").exists()


@pytest.mark.parametrize("key", ["node_ids", "class_names"])
def test_a_name_that_occurs_twice_is_refused(run: Any, tmp_path: Path, key: str) -> None:
    names = [f"n{place}" for place in range(NODES if key == "node_ids" else 3)]
    names[2] = names[0]
    graph = write(tmp_path / "g.npz", **{key: np.array(names)})
    done = run("condense", graph, "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.code, done.out) == (1, "")
    assert f"1 of the {key} occur more than once ('n0')" in done.err


def test_a_generated_split_is_described_as_it_is(run: Any, tmp_path: Path) -> None:
    graph, file = write(tmp_path / "g.npz"), tmp_path / "c.safetensors"
    assert run("condense", graph, "--nodes", 4, "-o", file).code == 0
    split = run("evaluate", file, "--graph", graph, "--json").result["split"]
    assert split.startswith("generated split, seed 0 (5 per class, 5 validation, ")
    uneven = load_graph(write(tmp_path / "h.npz", train_mask=np.arange(NODES) < 0))
    assert "per class" not in uneven.split_origin
    uneven.y[uneven.y == 2] = 1
    for key in ("train_mask", "val_mask", "test_mask"):
        del uneven[key]
    assert "(5 to 10 per class, " in load_graph(uneven).split_origin
