"""Names of nodes that stay in their file are those that were written, and repeats among them are found."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import save_stored
from plgc.graphs.formats.stored_text import StoredText
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError


def graph(names: list[str]) -> Data:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return Data(x=torch.eye(len(names)), edge_index=edges, edge_weight=torch.tensor([1.0, 2.0, 3.0]), node_ids=names)


@pytest.fixture(autouse=True)
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)


def test_names_and_weights_of_a_stored_graph_stay_in_their_files(tmp_path: Path) -> None:
    names = ["Zoë", "a", "", "long " * 20, "日本"]
    wanted = plgc.load_graph(graph(names), notice=False)
    found = plgc.load_graph(save_stored(wanted, tmp_path / "stored"), notice=False)
    ids = found.node_ids
    assert isinstance(ids, StoredText)
    assert (list(ids), len(ids), ids[3], ids[1:3], ids == names) == (names, 5, names[3], names[1:3], True)
    assert mapped.is_mapped(found.edge_weight)
    assert torch.equal(found.edge_weight, wanted.edge_weight)


def test_repeated_names_are_refused(tmp_path: Path) -> None:
    folder = save_stored(plgc.load_graph(graph(["a", "b", "c"]), notice=False), tmp_path / "stored")
    np.save(folder / "node_ids.npy", np.array(["a", "bb", "a"]))
    with pytest.raises(GraphError, match=r"1 of the node_ids occur more than once \('a'\)"):
        plgc.load_graph(folder, notice=False)


def test_repeats_are_those_of_a_count() -> None:
    rng = np.random.default_rng(0)
    names = np.array([f"n{number}" for number in rng.integers(0, 150_000, 200_000)])
    values, counts = np.unique(names, return_counts=True)
    assert set(StoredText(names).repeated()) == set(values[counts > 1].tolist())
    assert StoredText(values).repeated() == []
