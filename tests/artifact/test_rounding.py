"""What a file leaves out of X' and Ỹ, and that it gives back what it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import plgc
from plgc.artifact.rounding import KEPT, largest_values, main_values, rounded
from plgc.graphs import citation_graph
from plgc.runtime.errors import SettingError
from quick import quick

QUICK = quick(8)
GENERATOR = torch.Generator().manual_seed(1)
WIDE = torch.rand(5, 400, generator=GENERATOR) ** 8  # few large values, many small ones
VECTORS = torch.randn(5, 6, generator=GENERATOR)


def of(features: Tensor) -> plgc.CondensedGraph:
    """A condensed graph with these features."""
    rest = {"scaling": "none", "seed": 0, "threads": 1, "settings": {}, "nodes_requested": 5}
    return plgc.CondensedGraph(features, VECTORS, torch.arange(5), (2, 4), **rest)


def vectors(condensed: plgc.CondensedGraph) -> Tensor:
    assert condensed.pseudo_labels is not None
    return condensed.pseudo_labels


GRAPH = of(WIDE)


def test_the_largest_values_of_every_row_are_kept() -> None:
    found = largest_values(-WIDE, 0.25).numpy()
    for row, own in zip(-WIDE.numpy(), found, strict=True):
        order = np.argsort(-np.abs(row))
        np.testing.assert_array_equal(own[order[:100]], row[order[:100]])
        assert (own[order[100:]] == 0).all()
    assert torch.equal(largest_values(WIDE, 1.0), WIDE)
    assert (largest_values(WIDE, 1e-9) != 0).sum(1).tolist() == [1] * 5


def test_the_fewest_values_that_make_up_the_share_are_kept() -> None:
    found = main_values(WIDE, 0.99)
    for row, own in zip(WIDE.double().numpy(), found.double().numpy(), strict=True):
        total, squares = (row**2).sum(), np.sort(own[own != 0] ** 2)
        assert squares.sum() >= 0.99 * total > squares[1:].sum()
    assert torch.equal(main_values(torch.zeros(2, 3), 0.99), torch.zeros(2, 3))


@pytest.mark.parametrize("dtype", ["float8", "float16"])
def test_little_is_lost(dtype: str) -> None:
    found = rounded(GRAPH, dtype)
    for own, whole in ((found.features, GRAPH.features), (vectors(found), VECTORS)):
        lost = (own - whole).square().sum(1) / whole.square().sum(1)
        assert float(lost.max()) < 1 - KEPT + (1 / 32**2 if dtype == "float8" else 1e-6)
    assert float((found.features == 0).float().mean()) > 0.2
    assert torch.equal(found.counts, GRAPH.counts)


def test_float32_keeps_every_digit() -> None:
    found = rounded(GRAPH, "float32")
    assert torch.equal(found.features, WIDE)
    assert torch.equal(vectors(found), VECTORS)
    assert int((rounded(GRAPH, "float32", 0.1).features != 0).sum()) == 5 * 40


def test_float16_is_for_values_that_fit() -> None:
    large = rounded(of(WIDE * 1e6), "float16")
    small = rounded(of(WIDE * 1e-9), "float16")
    assert torch.equal(large.features, main_values(WIDE * 1e6, KEPT))
    assert torch.equal(small.features, main_values(WIDE * 1e-9, KEPT))
    assert torch.equal(vectors(large), VECTORS.half().float())


@pytest.mark.parametrize(("dtype", "share"), [("float8", 0.3), ("float16", 0.55), ("float32", 1)])
def test_a_file_gives_back_what_it_was_given_and_is_smaller(tmp_path: Path, dtype: str, share: float) -> None:
    found = rounded(GRAPH, dtype)
    again = plgc.CondensedGraph.load(found.save(tmp_path / "file"))
    assert torch.equal(again.features, found.features)
    assert torch.equal(vectors(again), vectors(found))
    assert again.to_bytes() == found.to_bytes()
    header = len(of(WIDE[:, :1]).to_bytes())
    assert len(found.to_bytes()) - header < share * 4 * WIDE.numel()


def test_condensing_returns_what_its_file_holds(tmp_path: Path) -> None:
    graph = plgc.load_graph(citation_graph(nodes=80, classes=3, features=20))
    default = plgc.condense(graph, nodes=6, settings=QUICK, progress=False)
    again = plgc.CondensedGraph.load(default.save(tmp_path / "file"))
    assert torch.equal(again.features, default.features)
    assert torch.equal(vectors(again), vectors(default))
    assert default.settings["dtype"] == "float8"
    whole = plgc.condense(graph, nodes=6, settings=QUICK, progress=False, dtype="float32")
    assert torch.equal(rounded(whole).features, default.features)
    assert torch.equal(vectors(rounded(whole)), vectors(default))
    half = plgc.condense(graph, nodes=6, settings=QUICK, progress=False, density=0.5)
    assert (half.features != 0).sum(1).tolist() == [10] * 6
    assert (half.settings["density"], whole.settings["dtype"]) == (0.5, "float32")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtype": "float64"}, "dtype is 'float64': choose float8, float16, float32"),
        ({"density": 0}, "density is 0: it must be above 0 and at most 1"),
        ({"density": 1.5}, "density is 1.5: it must be above 0 and at most 1"),
    ],
)
def test_other_values_are_refused(given: dict, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        plgc.condense(plgc.load_graph(citation_graph(nodes=80, classes=3, features=20)), nodes=6, **given)
