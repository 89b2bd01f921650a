"""Memory stays within what was allowed, measured from outside."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import bench_store
from plgc.graphs.store.budget import MIB, needed_memory
from processes import linux


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", [[], ["--words", "--weights"]])
def test_the_least_memory_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: list[str]
) -> None:
    allowed = -(-needed_memory(100_000) // MIB)
    sizes = ["--nodes", "100000", "--edges", "4000000", "--features", "8", "--memory", f"{allowed}MiB"]
    monkeypatch.setattr(sys, "argv", ["bench_store.py", str(tmp_path), *sizes, *kind])
    bench_store.main()
    found = json.loads(capsys.readouterr().out)
    assert found["edges"] > 7_900_000  # 64 MB as keys, and more as edges
    assert found["anonymous_mib"] <= allowed
