"""Fixtures for every test: real graphs where they are available, a small made-up one, and a cache of our own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph
from plgc.sparse.inputs import Inputs, prepare


def pytest_configure() -> None:
    torch.set_num_threads(1)  # on graphs this small a second thread costs more than it saves


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real graphs are not part of the quick run."""
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> Iterator[None]:
    """Ctrl-C interrupts, here and in the processes that tests start, also where a shell has it ignored (``nohup``)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test ever reads or writes the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLGC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real graphs. Unset: skip. Set and not there: fail, so that a typo cannot pass for success."""
    value = os.environ.get("PLGC_DATA")
    if not value:
        pytest.skip("PLGC_DATA is not set: real graphs are not available")
    folder = Path(value)
    if not folder.is_dir():
        pytest.fail(f"PLGC_DATA is set to {value!r}, which is not a folder")
    return folder


@pytest.fixture(scope="session")
def cora(data_dir: Path) -> Data:
    """Cora as loaded; shared by all tests, so none may change it."""
    if not (data_dir / "cora.npz").is_file():
        pytest.fail(f"there is no cora.npz in {data_dir}")
    return load_graph("cora")


@pytest.fixture(scope="session")
def demo_graph() -> Data:
    """A small citation-like graph; shared by all tests, so none may change it."""
    return citation_graph(nodes=600, classes=4, features=200)


@pytest.fixture(scope="session")
def demo_inputs(demo_graph: Data) -> Inputs:
    """That graph, as a GNN takes it."""
    return prepare(demo_graph, "l1")
