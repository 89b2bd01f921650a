"""The method on two screens does what the package's learned part does."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

import plgc
from plgc.method.settings import CondenseSettings

PATH = Path(__file__).parents[2] / "examples" / "plgc_minimal.py"

ONE_CHANNEL = replace(CondenseSettings(), plain=None)  # as the example has it


@pytest.mark.slow
def test_it_is_within_two_points_of_the_package() -> None:
    spec = importlib.util.spec_from_file_location("plgc_minimal", PATH)
    assert spec is not None
    assert spec.loader is not None
    minimal = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(minimal)
    graph, seeds = plgc.load_graph("demo"), range(3)
    found = [minimal.three_shot_accuracy(minimal.embed(graph, 71, seed), graph, seed) for seed in seeds]
    expected = []
    for seed in seeds:
        backbone = plgc.reconstruct(plgc.condense(graph, nodes=71, seed=seed, settings=ONE_CHANNEL), seed=seed)
        learned = backbone.embed(graph)[:, : backbone.parts["learned"]]  # without the features beside it
        expected.append(minimal.three_shot_accuracy(learned, graph, seed))
    assert abs(sum(found) - sum(expected)) / 3 <= 2.0
    assert sum(found) / 3 > 65  # the classes are learned at all
