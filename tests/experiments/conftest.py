"""A tiny graph under the name ``tiny``, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from plgc.graphs import citation_graph, save_npz


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of graphs, which is all the catalogue looks at: 120 nodes, 3 classes, 40 features, a split."""
    folder = tmp_path / "data"
    save_npz(citation_graph(nodes=120, classes=3, features=40), folder / "tiny.npz")
    monkeypatch.setenv("PLGC_DATA", str(folder))
    return folder
