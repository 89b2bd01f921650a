"""Loaded means in memory: what happens to the file afterwards changes nothing, and ends no process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.downstream.backbone import BackboneSettings
from plgc.graphs import citation_graph
from plgc.runtime.checkpoint import Checkpoint
from quick import quick


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, plgc.CondensedGraph):
        return [tensor for tensor in vars(value).values() if isinstance(tensor, torch.Tensor)]
    if isinstance(value, tuple):
        return list(value[0].values())
    return [*value.backbone.parameters(), *(part for part in vars(value.head).values() if torch.is_tensor(part))]


def load_checkpoint(path: Path) -> Any:
    return Checkpoint(path, "key").load()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Callable[[Path], Any], Path]:
    folder, graph = tmp_path_factory.mktemp("files"), citation_graph(nodes=60, classes=3, features=12)
    condensed = plgc.condense(graph, nodes=6, settings=quick(6, hidden=6, rounds=1, epochs=2))
    backbone = plgc.reconstruct(condensed, settings=BackboneSettings(hidden=5, steps=2))
    Checkpoint(folder / "kept", "key").save({"x": torch.randn(4000)}, {})
    return {
        plgc.CondensedGraph.load: condensed.save(folder / "condensed"),
        plgc.load_model: plgc.finetune(backbone, graph, shots=2).save(folder / "model"),
        load_checkpoint: folder / "kept",
    }


@pytest.mark.parametrize("load", [plgc.CondensedGraph.load, plgc.load_model, load_checkpoint], ids=lambda f: f.__name__)
def test_a_file_that_is_changed_in_place(
    files: dict[Callable[[Path], Any], Path], load: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content := files[load].read_bytes())
    tensors = tensors_of(load(path))
    before = [tensor.clone() for tensor in tensors]
    with open(path, "r+b") as file:
        file.seek(len(content) // 2)
        file.write(bytes(len(content) // 2))
    assert all(map(torch.equal, tensors, before))
    with open(path, "r+b") as file:
        file.truncate(0)  # of a mapped file, the next look at a tensor would end the process
    assert all(map(torch.equal, tensors, before))
