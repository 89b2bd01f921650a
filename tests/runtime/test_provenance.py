"""What a number carries: machine, versions, commit; and a peak of memory that is the job's, not of what came before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import plgc
from plgc.runtime.provenance import COMMIT_VARIABLE, peak_memory, provenance, reset_peak_memory, source_commit

MEGABYTES = 2**20


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    source_commit.cache_clear()
    yield
    source_commit.cache_clear()


def test_provenance() -> None:
    found = provenance()
    assert set(found) == {"machine", "device", "threads", "commit", "version", "torch", "python"}
    assert found["machine"] == f"CPU, {os.cpu_count()} cores"
    assert (found["device"], found["threads"]) == ("cpu", torch.get_num_threads())
    assert (found["version"], found["torch"]) == (plgc.__version__, torch.__version__)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.usefixtures("_asked_anew")
def test_commit_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMIT_VARIABLE, "abc1234")
    assert provenance()["commit"] == "abc1234"
    monkeypatch.setenv(COMMIT_VARIABLE, "def5678")
    assert source_commit() == "abc1234"  # as it was when first asked


@pytest.mark.usefixtures("_asked_anew")
def test_commit_is_that_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    folder = Path(plgc.__file__).parent
    head = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if head.returncode != 0:
        pytest.skip("the source has no history here")
    assert (source_commit() or "").removesuffix("+") == head.stdout.strip()


@pytest.mark.usefixtures("_asked_anew")
def test_no_git_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit() is None


def test_peak_memory_starts_afresh() -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system keeps one peak for the whole process")
    big = np.ones(200 * MEGABYTES, dtype=np.uint8)
    with_it = peak_memory()
    del big
    reset_peak_memory()
    after = peak_memory()
    assert with_it is not None
    assert after is not None
    assert 0 < after < with_it - 150 * MEGABYTES
    again = np.ones(100 * MEGABYTES, dtype=np.uint8)
    assert (peak_memory() or 0) > after + 80 * MEGABYTES
    assert again.size
