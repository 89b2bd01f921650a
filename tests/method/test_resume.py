"""A run that was stopped goes on from its checkpoint, and ends with the bytes of one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph
from plgc.method import alternate
from plgc.method import settings as config
from plgc.method.condense import condense
from plgc.method.settings import CondenseSettings
from plgc.runtime import checkpoint
from plgc.runtime.checkpoint import CheckpointFolder, checkpoint_folder
from plgc.runtime.container import container_bytes, read_container
from plgc.runtime.errors import ArtifactError, PLGCError
from plgc.runtime.files import WriteError

EPOCHS = 4 * 3


def quick(preset: str, **changes: Any) -> CondenseSettings:
    """A preset as it is, but small and short."""
    values = config.preset(preset).to_dict()
    for branch in values["encoders"]:
        branch.update(hidden=12, width=8)
    values["pseudo_labels"].update(rounds=4, round_epochs=3)
    values["synthesis"].update(steps=5)
    return CondenseSettings.from_dict({**values, **changes})


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=120, classes=3, features=40)


@pytest.fixture(autouse=True)
def _always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SHARE", 0)


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], list[int]]:
    """Have the run interrupted once so many epochs are done; gives the list of epochs that it fills."""
    real = alternate.train_epoch

    def arm(epochs: int | None) -> list[int]:
        done: list[int] = []

        def train(*arguments: Any) -> float:
            if epochs is not None and len(done) == epochs:
                raise KeyboardInterrupt
            done.append(len(done))
            return real(*arguments)

        monkeypatch.setattr(alternate, "train_epoch", train)
        return done

    return arm


def stopped(graph: Data, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        condense(graph, **options)


@pytest.mark.parametrize("case", ["default", "paper", "core", "merged"])
def test_stopped_anywhere_the_bytes_are_those_of_an_undisturbed_run(
    graph: Data, case: str, tmp_path: Path, stop_after: Callable[[int | None], list[int]]
) -> None:
    preset = "paper" if case == "paper" else "default"
    changes = {"merged": {"min_cluster": 12}}.get(case, {})
    settings = quick(preset, **changes)
    shown = graph
    if case == "core":
        shown = graph.clone()
        shown.core_mask = torch.arange(120) < 90
    options: dict[str, Any] = {"nodes": 10, "seed": 4, "settings": settings}
    whole = condense(shown, **options).to_bytes()
    options["checkpoint"] = tmp_path / "kept"
    lives = (1, 2, 2, 3, 1, 2)  # epochs of each
    for before in lives:
        done = stop_after(before)
        stopped(shown, **options)
        assert len(done) == before
        assert len(list((tmp_path / "kept").iterdir())) == 1
    done = stop_after(None)
    assert condense(shown, **options).to_bytes() == whole
    assert len(done) == EPOCHS - sum(lives)
    assert list((tmp_path / "kept").iterdir()) == []  # it has ended well


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 5},
        {"nodes": 11},
        {"settings": quick("paper", scaling="l1")},
        {"threads": 2},
        {"graph": citation_graph(nodes=121, classes=3, features=40)},
        {"core": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_another_run_has_left_is_not_used(
    graph: Data, tmp_path: Path, stop_after: Callable[[int | None], list[int]], changes: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"nodes": 10, "seed": 4, "settings": quick("paper"), "checkpoint": tmp_path}
    stop_after(4)
    stopped(graph, **options)
    [left] = tmp_path.iterdir()
    content = left.read_bytes()
    done, said = stop_after(None), []
    other = changes.pop("graph", graph)
    if changes.pop("core", False):
        other = graph.clone()
        other.core_mask = torch.arange(120) < 90
    condense(other, **{**options, **changes}, progress=lambda message, *_: said.append(message))
    assert len(done) == EPOCHS
    assert said[0] == f"{tmp_path} has checkpoints of another graph, seed or setting only: starting from the beginning"
    assert left.read_bytes() == content
    assert list(tmp_path.iterdir()) == [left]


def test_a_damaged_checkpoint_is_not_used(
    graph: Data, tmp_path: Path, stop_after: Callable[[int | None], list[int]]
) -> None:
    options: dict[str, Any] = {"nodes": 10, "settings": quick("paper"), "checkpoint": tmp_path}
    stop_after(4)
    stopped(graph, **options)
    [left] = tmp_path.iterdir()
    content = bytearray(left.read_bytes())
    content[-20] ^= 4
    left.write_bytes(content)
    done = stop_after(None)
    condense(graph, **options)
    assert len(done) == EPOCHS


def test_it_is_said_where_a_run_goes_on(
    graph: Data, tmp_path: Path, stop_after: Callable[[int | None], list[int]]
) -> None:
    options: dict[str, Any] = {"nodes": 10, "settings": quick("paper"), "checkpoint": tmp_path}
    stop_after(5)
    stopped(graph, **options)
    stop_after(None)
    said: list[tuple[str, int, int]] = []
    [left] = tmp_path.iterdir()
    condense(graph, **options, progress=lambda *event: said.append(event))
    assert said[0] == (f"resuming after epoch 5, from {left}", 5, 12)


# When to save


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(checkpoint.time, "monotonic", clock)
    return clock


def test_a_folder_nobody_asked_for_is_made_after_a_minute_and_gone_in_the_end(tmp_path: Path, clock: Clock) -> None:
    place = checkpoint_folder(None, tmp_path / "c.safetensors")
    assert place.folder == tmp_path / "c.safetensors.checkpoint"
    kept = checkpoint.checkpoint_in(place, seed=1)
    kept.save({"x": torch.ones(2)}, {})
    clock.now += 59
    kept.save({"x": torch.ones(2)}, {})
    assert list(tmp_path.iterdir()) == []
    assert place.files == set()
    clock.now += 1
    kept.save({"x": torch.ones(2)}, {"epoch": 1})
    clock.now += 14
    kept.save({"x": torch.ones(2)}, {"epoch": 2})  # too early again
    found = kept.load()
    assert found is not None
    assert found[1] == {"epoch": 1}
    clock.now += 1
    kept.save({"x": torch.ones(2)}, {"epoch": 3})
    assert [path.name for path in place.folder.iterdir()] == [kept.path.name] if kept.path else False
    kept.discard()
    assert kept.load() is not None  # the result is not safe yet
    other = checkpoint.checkpoint_in(CheckpointFolder(place.folder, patience=0), seed=2)
    other.save({"x": torch.zeros(1)}, {})
    place.clear()
    assert list(place.folder.iterdir()) == [other.path]  # another run's, and so the folder, stays
    assert other.place is not None
    other.place.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_asked_for_is_used_from_the_start_and_stays(tmp_path: Path) -> None:
    place = checkpoint_folder(tmp_path / "mine", tmp_path / "c.safetensors")
    kept = checkpoint.checkpoint_in(place, seed=1)
    kept.save({"x": torch.ones(2)}, {})
    assert place.holds()
    place.clear()
    assert not place.holds()
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
    assert list((tmp_path / "mine").iterdir()) == []


def test_an_interrupt_while_a_checkpoint_gets_its_name_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    real = checkpoint.write_atomically
    monkeypatch.setattr(checkpoint, "write_atomically", interrupted)
    place = checkpoint_folder(tmp_path / "mine", tmp_path / "c.safetensors")
    with pytest.raises(KeyboardInterrupt):
        checkpoint.checkpoint_in(place, seed=1).save({"x": torch.ones(2)}, {})
    assert place.holds()


def test_saving_takes_a_small_share_of_the_time(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SHARE", 20)
    monkeypatch.setattr(checkpoint, "write_atomically", lambda *_: setattr(clock, "now", clock.now + 3))
    kept = checkpoint.checkpoint_in(tmp_path, seed=1)
    assert kept.due()
    kept.save({"x": torch.ones(2)}, {})  # takes three seconds
    clock.now += 59
    assert not kept.due()
    clock.now += 1
    assert kept.due()


def test_a_full_disk_stops_a_run_only_where_a_checkpoint_was_asked_for(
    graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise WriteError("no space left")

    monkeypatch.setattr(checkpoint, "write_atomically", full)
    settings = quick("paper")
    with pytest.raises(PLGCError, match="no space left"):
        condense(graph, nodes=10, settings=settings, checkpoint=checkpoint_folder(tmp_path / "a", tmp_path / "c"))
    condense(graph, nodes=10, settings=settings, checkpoint=CheckpointFolder(tmp_path / "b", patience=0, pause=0))


def test_sources_keep_checkpoints_of_their_own(
    graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: Callable[[int | None], list[int]]
) -> None:
    settings = quick("paper")
    options: dict[str, Any] = {"names": ["north", "south"], "nodes": 6, "settings": settings, "min_cluster": None}
    options["private"] = False  # these graphs are too small
    other = citation_graph(nodes=100, classes=3, features=40)
    plgc.condense_sources([graph, other], tmp_path / "whole", **options)
    out = tmp_path / "out"
    real = checkpoint.checkpoint_folder(None, "x").__class__
    monkeypatch.setattr(
        "plgc.sources.task.checkpoint_folder",
        lambda _, output: real(Path(f"{output}.checkpoint"), patience=0, pause=0),
    )
    stop_after(EPOCHS + 5)  # within the second source
    with pytest.raises(KeyboardInterrupt):
        plgc.condense_sources([graph, other], out, **options)
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "north.safetensors", "south.checkpoint"]
    done = stop_after(None)
    plgc.condense_sources([graph, other], out, **options)
    assert len(done) == EPOCHS - 5
    for name in ("manifest.json", "north.safetensors", "south.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(list(out.iterdir())) == 3


@pytest.mark.parametrize(
    ("tensors", "values", "message"),
    [
        ({}, {"curves": {"explained": 7}}, "curves.explained is 7"),
        ({}, {"curves": {"losses": []}}, "curves.'losses' is unknown"),
        ({}, {"who": 1}, "'who' is unknown"),
        ({"parameter 0": torch.zeros(2, 2)}, {}, "parameter 0 has shape"),
        ({"optimizer 0 exp_avg": torch.zeros(7)}, {}, "parameter 0 has shape"),
        ({"generator": torch.zeros(3)}, {}, ""),
        ({"potential 0": torch.zeros(3)}, {}, "its potentials are not of 8"),
    ],
)
def test_a_forged_checkpoint_is_named(
    graph: Data,
    tmp_path: Path,
    stop_after: Callable[[int | None], list[int]],
    tensors: dict[str, torch.Tensor],
    values: dict[str, Any],
    message: str,
) -> None:
    options: dict[str, Any] = {"nodes": 8, "settings": quick("default"), "threads": 1, "checkpoint": tmp_path}
    stop_after(7)
    stopped(graph, **options)
    [path] = tmp_path.iterdir()
    before, header = read_container(path, (checkpoint.FORMAT,), checkpoint.SCHEMA, checkpoint.SCHEMA)
    forged = {**header, "values": {**header["values"], **values}}
    path.write_bytes(container_bytes({**before, **tensors}, {k: v for k, v in forged.items() if k != "checksum"}))
    stop_after(None)
    with pytest.raises(ArtifactError, match=rf"the checkpoint .* does not fit this run \(.*{message}.*remove it"):
        condense(graph, **options)
    path.unlink()
    condense(graph, **options)
