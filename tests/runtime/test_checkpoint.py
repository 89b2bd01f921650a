from __future__ import annotations

from pathlib import Path

import torch

from plgc.runtime.checkpoint import Checkpoint, checkpoint_in, run_key


def test_what_is_saved_is_found_by_the_same_run_alone(tmp_path: Path) -> None:
    mine = checkpoint_in(tmp_path, method="a", seed=1)
    assert mine.load() is None
    state = torch.Generator().manual_seed(3).get_state()
    mine.save({"x": torch.arange(4.0), "state": state}, {"epoch": 7, "curve": [1.0, 0.5]})
    found = checkpoint_in(tmp_path, seed=1, method="a").load()
    assert found is not None
    tensors, values = found
    assert torch.equal(tensors["x"], torch.arange(4.0))
    assert torch.equal(tensors["state"], state)
    assert values == {"epoch": 7, "curve": [1.0, 0.5]}
    assert checkpoint_in(tmp_path, method="a", seed=2).load() is None
    assert Checkpoint(mine.path, run_key(method="b")).load() is None
    mine.discard()
    mine.discard()
    assert mine.load() is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    mine = checkpoint_in(tmp_path, seed=1)
    mine.save({"x": torch.ones(3)}, {})
    assert mine.path is not None
    mine.path.write_bytes(mine.path.read_bytes()[:40])
    assert mine.load() is None


def test_without_a_folder_nothing_is_kept() -> None:
    none = checkpoint_in(None, seed=1)
    none.save({"x": torch.ones(3)}, {})
    assert none.load() is None
    none.discard()
