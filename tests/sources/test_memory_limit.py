"""--memory is a promise: parts of a graph on disk are cut and condensed under a hard limit of the system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plgc.graphs import store_graph
from topic_graph import TopicGraph, write_topic_graph

MIB = 1 << 20
LIMIT = 700 * MIB
pytest.importorskip("pymetis")
resource = pytest.importorskip("resource", reason="the system has no limits")

SCRIPT = """
import json, resource, sys
import torch
import plgc
from plgc.runtime import mapped
from plgc.runtime.memory import watched_memory
from quick import quick

mapped.MAPPED_FROM = 0
torch.set_num_threads(1)
stored, out, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # no more can be had, from here on
with watched_memory() as usage:
    made = plgc.condense_parts(
        stored, out, 2, "stream", halo=1, nodes=40, memory=limit, settings=quick(16, hidden=16, rounds=1, epochs=2)
    )
print(json.dumps([usage.memory, *(source.peak_memory_bytes for source in made.sources)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count other things")
def test_parts_on_disk_stay_within_a_hard_limit(tmp_path: Path) -> None:
    raw = write_topic_graph(TopicGraph(40_000, 800_000, 32, 4), tmp_path / "raw")
    stored = store_graph(raw, tmp_path / "big", progress=False, notice=False)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(stored), str(tmp_path / "out"), str(LIMIT)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)
    assert 100 * MIB < max(peaks) <= LIMIT
