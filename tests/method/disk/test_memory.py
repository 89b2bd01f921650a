"""The memory of condensing from disk, in a process of its own: anonymous and shared, as the system counts it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from processes import linux

NODES, PAIRS, FEATURES, COMMUNITY = 300_000, 5_000_000, 64, 500


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Communities whose nodes are spread over the file, 10 million entries, and features of 38 MiB."""
    folder, rng = tmp_path_factory.mktemp("stored"), np.random.default_rng(0)
    community = rng.permutation(np.arange(NODES) // COMMUNITY)
    members = np.argsort(community, kind="stable").reshape(-1, COMMUNITY)
    source = rng.integers(0, NODES, PAIRS)
    near = members[community[source], (COMMUNITY * rng.random(PAIRS) ** 2).astype(np.int64)]
    target = np.where(rng.random(PAIRS) < 0.7, near, rng.integers(0, NODES, PAIRS))
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    matrix = sp.csr_array((np.ones(2 * PAIRS, np.float32), ends), shape=(NODES, NODES))
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    row = np.repeat(np.arange(NODES, dtype=np.int32), np.diff(matrix.indptr))
    np.save(folder / "edge_index.npy", np.stack([row, matrix.indices.astype(np.int32)]))
    centres = rng.standard_normal((NODES // COMMUNITY, FEATURES))
    np.save(folder / "x.npy", (centres[community] + rng.standard_normal((NODES, FEATURES))).astype(np.float16))
    return folder


def peak_of(command: list[str], folder: Path) -> int:
    """The most anonymous and shared memory that a command takes, in KiB, looked at every hundredth of a second."""
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    most = 0
    while running.poll() is None:
        lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
        most = max(most, sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))))
        time.sleep(0.01)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    return most


@linux
@pytest.mark.slow
def test_the_smallest_limit_that_is_named_suffices_and_is_kept(stored: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "plgc", "condense", str(stored), "--nodes", "150", "--threads", "1"]
    small = [*command, "--memory", "300MiB", "-o", "small.safetensors"]
    refused = subprocess.run(small, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "this graph needs at least" in refused.stderr
    least = float(refused.stderr.split("needs at least ")[1].split()[0])
    assert least < 1.1
    most = peak_of([*command, "--memory", f"{least}GiB", "-o", "made.safetensors"], tmp_path)
    assert most / 2**20 < least
    assert [path.name for path in tmp_path.iterdir()] == ["made.safetensors"]
