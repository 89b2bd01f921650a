"""Scratch files: written and read like tensors, gone at the end, after a failure and after a kill."""

import shutil
import subprocess
import sys
from collections import namedtuple

import pytest
import torch

from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError
from plgc.runtime.scratch import SCRATCH, scratch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_arrays_are_written_by_blocks_and_read_like_tensors(tmp_path, dtype):
    values = torch.randn(1000, 8).to(dtype)
    with scratch(tmp_path) as room:
        array = room.empty(1000, 8, dtype=dtype)
        assert mapped.is_mapped(array)
        for start in range(0, 1000, 300):
            array[start : start + 300] = values[start : start + 300]
            mapped.release(array)
        assert torch.equal(array, values)
        assert torch.equal(mapped.gather(array, torch.tensor([5, 2])), values[[5, 2]])
        assert room.empty(0, 4).shape == (0, 4)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(array, values)  # for as long as it is used


def test_the_folder_is_removed_where_the_run_fails(tmp_path):
    def fail():
        with scratch(tmp_path) as room:
            room.empty(10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_has_left_is_removed_and_what_is_in_use_is_not(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from plgc.runtime.scratch import scratch\n"
        "with scratch(Path(sys.argv[1])) as room:\n"
        "    room.empty(10); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.glob(f"{SCRATCH}*")
    with scratch(tmp_path) as first, scratch(tmp_path) as second:
        assert not left.exists()
        assert first.folder.exists()
        assert second.folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_too_small_a_disk_is_refused_before_the_work(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100, 90, 10))
    words = "embedding takes up to 1,000 bytes of disk, 10 are free"
    with pytest.raises(SettingError, match=words), scratch(tmp_path, 1000, "embedding"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_an_error_and_no_crash(tmp_path):
    with pytest.raises(WriteError, match="cannot write"), scratch(tmp_path) as room:
        room.empty(1 << 55)
    assert list(tmp_path.iterdir()) == []
