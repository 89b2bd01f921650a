"""``--memory`` is kept: what a process itself takes is looked at all the while it works on a graph on disk."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

import plgc
from quick import quick

NODES, ENTRIES, WIDTH, LIMIT = 150_000, 6_000_000, 40, 640  # MiB
EMBEDDING = 4 * NODES * (2 * 512 + 3 * WIDTH)  # bytes that the in-memory path holds at least


def write_graph(folder: Path, nodes: int, entries: int) -> None:
    """A graph with two classes that features and edges tell apart."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    y = np.arange(nodes) % 2
    start = rng.integers(0, nodes, entries // 2)
    end = (start + 2 * rng.integers(1, nodes // 2, entries // 2)) % nodes  # of the same class
    low, high = np.minimum(start, end), np.maximum(start, end)
    keys = np.unique((low * nodes + high)[low != high])
    keys = np.sort(np.concatenate([keys, keys % nodes * nodes + keys // nodes]))
    np.save(folder / "edge_index.npy", np.stack([keys // nodes, keys % nodes]))
    np.save(folder / "x.npy", (rng.standard_normal((nodes, WIDTH)) + y[:, None]).astype(np.float32))
    np.save(folder / "y.npy", y)
    np.save(folder / "train_mask.npy", np.arange(nodes) < 1000)
    np.save(folder / "test_mask.npy", np.arange(nodes) >= 1000)


def peak_of(*command: object) -> int:
    """The most anonymous and shared memory of a command of plgc, in MiB."""
    process, peak = subprocess.Popen([sys.executable, "-m", "plgc", *map(str, command)]), 0
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        sizes = [int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))]
        peak = max(peak, sum(sizes) // 1024)
        time.sleep(0.02)
    assert process.wait() == 0
    return peak


@pytest.mark.slow
def test_training_and_predicting_stay_within_the_limit(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of a process is read from /proc")
    write_graph(tmp_path / "big", NODES, ENTRIES)
    write_graph(tmp_path / "small", 600, 3000)
    small: Data = plgc.load_graph(tmp_path / "small", notice=False)
    made = plgc.condense(small, nodes=20, settings=quick(256, hidden=64, rounds=2, epochs=5))
    made.save(tmp_path / "c.safetensors")
    given = ["--graph", tmp_path / "big", "--memory", f"{LIMIT}MiB"]
    model, answers = tmp_path / "model.safetensors", tmp_path / "answers.parquet"
    assert EMBEDDING > LIMIT << 20
    assert peak_of("train", tmp_path / "c.safetensors", *given, "--shots", 5, "-o", model) < LIMIT
    assert peak_of("predict", model, *given, "-o", answers) < LIMIT
    predicted = torch.from_numpy(pq.read_table(answers)["predicted_class"].to_numpy())
    assert float((predicted == torch.arange(NODES) % 2).float().mean()) > 0.95
    assert not list(tmp_path.glob(".plgc*"))
