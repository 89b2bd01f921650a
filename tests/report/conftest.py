"""A small graph, condensed in every way that a report covers, and one report that most tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, save_npz, training_labels
from plgc.method.release import privatise
from plgc.report import build_report
from plgc.rivals.methods import condense_with


@pytest.fixture(scope="session")
def small() -> Data:
    """300 nodes, 3 classes, 100 features."""
    return citation_graph(nodes=300, classes=3, features=100)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="session")
def graph(small: Data, place: Path) -> Path:
    return save_npz(small, place / "small.npz")


@pytest.fixture(scope="session")
def condensed(small: Data) -> plgc.CondensedGraph:
    return plgc.condense(small, nodes=12, seed=3)


@pytest.fixture(scope="session")
def ours(condensed: plgc.CondensedGraph, place: Path) -> Path:
    return condensed.save(place / "ours.safetensors")


@pytest.fixture(scope="session")
def noisy(condensed: plgc.CondensedGraph, place: Path) -> Path:
    return privatise(condensed, clip=1.0, noise=0.05, seed=0).save(place / "noisy.safetensors")


@pytest.fixture(scope="session")
def rival(small: Data, place: Path) -> Path:
    made = condense_with("gecc", small, nodes=12, seed=0, labels=training_labels(small))
    return made.save(place / "rival.safetensors")


@pytest.fixture(scope="session")
def parts(graph: Path, place: Path) -> Path:
    """A folder of two parts with a manifest."""
    plgc.condense_parts(graph, place / "parts", 2, nodes=12, seed=1, min_cluster=2)
    return place / "parts"


@pytest.fixture(scope="session")
def page(ours: Path, graph: Path) -> str:
    """The report of one file with its graph."""
    return build_report([ours], graph=graph, seeds=2, seed=1)
