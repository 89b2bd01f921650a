from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate
from plgc.graphs import training_labels
from plgc.rivals.methods import condense_with
from plgc.runtime.errors import SettingError
from plgc.runtime.options import Compute, accepts, check_ranges
from quick import quick

QUICK = quick(16, hidden=16, rounds=1, epochs=2)


@dataclass
class Settings:
    epochs: int = 1
    share: float = 0.0
    limit: float | None = None
    kind: str = "one"


RULES = {"epochs": "[1, inf)", "share": "[0, 1)", "limit": "(0, 1]", "kind": ("one", "two")}


@pytest.mark.parametrize("good", [{}, {"epochs": 10**9}, {"share": 0.999}, {"limit": 1.0}, {"kind": "two"}])
def test_bounds_are_kept(good: dict[str, object]) -> None:
    check_ranges(Settings(**good), RULES)  # pyright: ignore


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epochs": 0}, "epochs is 0: it must be at least 1"),
        ({"epochs": float("inf")}, "epochs is inf"),
        ({"share": 1.0}, "share is 1.0: it must be at least 0 and below 1"),
        ({"share": float("nan")}, "share is nan"),
        ({"limit": 0.0}, "limit is 0.0: it must be above 0 and at most 1"),
        ({"kind": "three"}, "kind is 'three': choose one, two"),
    ],
)
def test_the_first_value_out_of_range_is_named(bad: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=f"^{message}"):
        check_ranges(Settings(**bad), RULES)  # pyright: ignore


# Plain keywords for groups of options


@dataclass(frozen=True)
class Oven:
    """A group of options."""

    heat: int = 180
    fan: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, {"heat": "[50, 250]"})


@accepts(oven=Oven(fan=True), compute=Compute)
def bake(what: str, *, minutes: int = 30, oven: Oven, compute: Compute) -> tuple[str, int, Oven, str]:
    """Bake."""
    return what, minutes, oven, compute.device


def test_keywords_become_one_object_for_each_group() -> None:
    assert bake("bread") == ("bread", 30, Oven(180, True), "cpu")
    assert bake("bread", minutes=20, heat=220, device="cuda") == ("bread", 20, Oven(220, True), "cuda")
    assert bake("cake", oven=Oven(160)) == ("cake", 30, Oven(160), "cpu")
    assert bake("cake", oven=Oven(160), fan=True) == ("cake", 30, Oven(160, True), "cpu")
    with pytest.raises(SettingError, match="heat is 20: it must be at least 50 and at most 250"):
        bake("bread", heat=20)
    with pytest.raises(TypeError, match="colour"):
        bake("bread", colour="brown")


def test_the_signature_names_every_keyword_once() -> None:
    names = list(inspect.signature(bake).parameters)
    assert names == ["what", "minutes", "heat", "fan", "device", "threads", "memory", "precision"]
    assert inspect.signature(bake).parameters["fan"].default is True
    for function in (plgc.condense, plgc.condense_sources, plgc.condense_parts):
        assert {"device", "memory", "min_cluster", "clip"} <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads is 0: it must be at least 1"),
        ({"memory": "4GB"}, "memory is '4GB'"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"precision": "bfloat16"}, "precision is bfloat16, but device is cpu"),
    ],
)
def test_what_cannot_be_computed_with_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Compute(**options)


# A device that is not here


NO_DEVICE = "cuda:77" if torch.cuda.is_available() else "cuda"


def test_a_device_that_is_not_here_is_refused_wherever_one_is_taken(demo_graph: Data, tmp_path: Path) -> None:
    condensed = plgc.condense(demo_graph, nodes=8, settings=QUICK)
    model = plgc.finetune(plgc.reconstruct(condensed), demo_graph, shots=1).save(tmp_path / "model.safetensors")
    training = training_labels(demo_graph)
    calls: list[Callable[..., Any]] = [
        partial(plgc.condense, demo_graph, nodes=8),
        partial(plgc.reconstruct, condensed),
        partial(plgc.load_model, model),
        partial(plgc.condense_sources, [demo_graph], tmp_path / "sources", nodes=8),
        partial(plgc.condense_parts, demo_graph, tmp_path / "parts", 2, nodes=8),
        partial(evaluate, [condensed], demo_graph, shots=1),
        partial(condense_with, "random", demo_graph, nodes=8, labels=training),
        lambda device: plgc.PLGCClassifier(nodes=8, device=device).fit(demo_graph),
    ]
    for call in calls:
        for device in (NO_DEVICE, "abacus"):
            with pytest.raises(SettingError, match=f"device '{device}' cannot be used: .*Try cpu"):
                call(device=device)
    assert {path.name for path in tmp_path.iterdir()} == {model.name}


def test_a_torch_device_is_as_good_as_its_name(demo_graph: Data) -> None:
    made = [plgc.condense(demo_graph, nodes=8, settings=QUICK, device=one) for one in ("cpu", torch.device("cpu"))]
    assert made[0].to_bytes() == made[1].to_bytes()
