from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from plgc import CondensedGraph, load_graph
from plgc.artifact.export import CondensedDataset, to_pyg
from plgc.runtime.errors import ArtifactError, MissingExtraError, SettingError


def condensed(nodes: int = 5, features: int = 3) -> CondensedGraph:
    generator = torch.Generator().manual_seed(nodes)
    return CondensedGraph(
        features=torch.rand(nodes, features, generator=generator),
        pseudo_labels=torch.rand(nodes, 4, generator=generator),
        counts=torch.arange(1, nodes + 1),
        blocks=(4,),
        scaling="l1",
        seed=0,
        threads=1,
        settings={},
        nodes_requested=nodes,
    )


def supervised() -> CondensedGraph:
    """Like what GCond leaves: classes, and weighted edges with the diagonal among them."""
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 1, 3, 2]])
    return replace(
        condensed(),
        pseudo_labels=None,
        blocks=(),
        labels=torch.tensor([0, 1, 0, 1, -1]),
        num_classes=2,
        edge_index=edges,
        edge_weight=torch.tensor([0.5, 0.5, 9.0, 2.0, 9.0]),
    )


def test_pyg_of_pseudo_labels() -> None:
    source = condensed()
    data = source.to_pyg()
    data.validate(raise_on_error=True)
    assert torch.equal(data.x, source.features)
    assert torch.equal(data.y, source.pseudo_labels)
    assert torch.equal(data.counts, source.counts)
    assert data.edge_index.shape == (2, 0)
    assert data.edge_index.dtype == torch.int64
    assert (data.target, data.scaling, data.num_nodes) == ("pseudo_labels", "l1", 5)
    data.x.zero_()
    assert source.features.abs().sum() > 0  # a copy


def test_pyg_of_labels_and_edges_has_no_self_loops() -> None:
    data = supervised().to_pyg()
    data.validate(raise_on_error=True)
    assert data.target == "labels"
    assert data.y.tolist() == [0, 1, 0, 1, -1]
    assert data.edge_index.tolist() == [[0, 1, 2], [1, 0, 3]]
    assert data.edge_weight.tolist() == [0.5, 0.5, 2.0]
    assert not data.has_self_loops()


def test_networkx() -> None:
    graph = condensed().to_networkx()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (5, 0)
    assert graph.nodes[2]["count"] == 3
    assert graph.nodes[2]["features"] == condensed().features[2].tolist()
    assert graph.nodes[2]["target"] == condensed().pseudo_labels[2].tolist()  # pyright: ignore
    graph = supervised().to_networkx()
    assert sorted(graph.edges(data="weight")) == [(0, 1, 0.5), (2, 3, 2.0)]
    assert [target for _, target in graph.nodes(data="target")] == [0, 1, 0, 1, -1]
    unweighted = replace(supervised(), edge_weight=None).to_networkx()
    assert sorted(unweighted.edges(data=True)) == [(0, 1, {}), (2, 3, {})]
    back = load_graph(supervised().to_networkx())
    assert torch.equal(back.x[:, :3], supervised().features)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_data_frames(kind: str) -> None:
    library = pytest.importorskip(kind)
    frame = condensed().to_dataframe(kind, feature_names=["a", "b", "c"])
    assert isinstance(frame, library.DataFrame)
    assert list(frame.columns) == ["count", "a", "b", "c", *(f"pseudo_label_{place}" for place in range(4))]
    np.testing.assert_array_equal(frame["b"].to_numpy(), condensed().features[:, 1].numpy())
    np.testing.assert_array_equal(frame["pseudo_label_3"].to_numpy(), condensed().pseudo_labels[:, 3].numpy())  # pyright: ignore
    assert list(supervised().to_dataframe(kind).columns) == ["count", "x0", "x1", "x2", "label"]
    soft = replace(supervised(), labels=torch.rand(5, 2))
    assert list(soft.to_dataframe(kind).columns)[-2:] == ["label_0", "label_1"]


def test_data_frames_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="choose pandas or polars"):
        condensed().to_dataframe("excel")
    with pytest.raises(SettingError, match="2 feature names were given, 3"):
        condensed().to_dataframe(feature_names=["a", "b"])
    with pytest.raises(SettingError, match="that of another column"):
        condensed().to_dataframe(feature_names=["a", "b", "count"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    pytest.importorskip("polars")
    assert type(condensed().to_dataframe()).__module__.startswith("polars")
    with pytest.raises(MissingExtraError, match=r"needs pandas: pip install 'plgc\[tables\]'"):
        condensed().to_dataframe("pandas")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="pandas or polars"):
        condensed().to_dataframe()
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"plgc\[networkx\]"):
        condensed().to_networkx()


def test_dataset_of_files_and_objects(tmp_path: Path) -> None:
    path = condensed(7).save(tmp_path / "c.safetensors")
    dataset = CondensedDataset([condensed(), path, str(path)])
    assert len(dataset) == 3
    assert [data.num_nodes for data in dataset] == [5, 7, 7]
    assert dataset.num_features == 3
    assert torch.equal(dataset[1].x, to_pyg(condensed(7)).x)
    dataset[0].x.zero_()
    assert dataset[0].x.sum() > 0
    assert len(dataset[1:]) == 2
    batch = next(iter(DataLoader(dataset, batch_size=3)))  # pyright: ignore
    assert batch.x.shape == (19, 3)
    doubled = CondensedDataset(path, transform=lambda data: data.update({"x": 2 * data.x}))
    assert torch.equal(doubled[0].x, 2 * condensed(7).features)
    wide = replace(condensed(), pseudo_labels=torch.rand(5, 9), blocks=(9,))  # sources need not agree on d
    assert [data.y.shape[1] for data in CondensedDataset([condensed(), wide])] == [4, 9]
    with pytest.raises(ArtifactError, match="no condensed graph"):
        CondensedDataset([])
    with pytest.raises(ArtifactError, match="there is no file"):
        CondensedDataset(tmp_path / "none.safetensors")
