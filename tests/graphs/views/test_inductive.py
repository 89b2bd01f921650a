from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate
from plgc.graphs import citation_graph, load_graph, split_edges, training_edges, training_subgraph, unseen_subgraph
from plgc.graphs.attributes import Seen
from plgc.graphs.views.inductive import induced_subgraph, training_digest
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.runtime.errors import GraphError
from quick import PLAIN

QUICK = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=16, width=16),),
    pseudo_labels=PseudoLabelSettings(rounds=1, round_epochs=2),
)


@pytest.fixture(scope="module")
def graph() -> Data:
    """With a weight on every edge and a second set of labels; shared, so no test may change it."""
    made = load_graph(citation_graph(nodes=200, classes=3, features=60))
    row, column = made["edge_index"]
    made.edge_weight = (1 + torch.minimum(row, column) + 1000 * torch.maximum(row, column)).float()
    made.y_multi = torch.nn.functional.one_hot(made["y"])
    return made


def rows(graph: Data) -> Tensor:
    x = graph["x"]
    return x.to_dense() if x.layout == torch.sparse_csr else x


def weights(graph: Data, number: Tensor) -> dict[tuple[int, int], float]:
    """Every edge under the original node numbers, with its weight."""
    edges = number[graph["edge_index"]].T.tolist()
    found = {(a, b): w for (a, b), w in zip(edges, graph["edge_weight"].tolist(), strict=True)}
    assert len(found) == len(edges)
    return found


def test_the_cut_keeps_which_nodes_are_a_parts_own(graph: Data) -> None:
    part = load_graph(graph)
    part.core_mask = torch.arange(200) % 3 > 0
    assert torch.equal(training_subgraph(part)["core_mask"], part.core_mask[part["train_mask"]])
    assert "core_mask" not in training_subgraph(graph)


@pytest.mark.parametrize("part", ["train", "unseen"])
def test_the_cut_is_the_subgraph_of_its_nodes(graph: Data, part: str) -> None:
    mask = graph["train_mask"] if part == "train" else ~graph["train_mask"]
    cut = training_subgraph(graph) if part == "train" else unseen_subgraph(graph)
    original = mask.nonzero().flatten()
    assert cut.num_nodes == len(original) == int(mask.sum())
    everything = weights(graph, torch.arange(200))
    inside = {pair: w for pair, w in everything.items() if mask[pair[0]] and mask[pair[1]]}
    assert 0 < len(inside) < len(everything)
    assert weights(cut, original) == inside
    assert torch.equal(rows(cut), rows(graph)[mask])
    for key in ("y", "y_multi"):
        assert torch.equal(cut[key], graph[key][mask])
    assert cut.name == graph.name


@pytest.mark.parametrize("sparse", [False, True])
def test_the_training_subgraph_is_the_induced_one(demo_graph: Data, sparse: bool) -> None:
    graph = load_graph(demo_graph)
    if not sparse:
        graph.x = graph.x.to_dense()
    graph.edge_weight = torch.arange(graph.num_edges, dtype=torch.float32)
    kept = demo_graph.train_mask.nonzero().flatten().numpy()
    matrix = sp.csr_matrix((graph.edge_weight.numpy() + 1, graph.edge_index.numpy()), shape=(600, 600))
    expected = matrix[kept][:, kept].tocoo()
    cut = training_subgraph(graph)
    assert cut.num_nodes == len(kept) == 80
    np.testing.assert_array_equal(cut.edge_index.numpy(), np.stack([expected.row, expected.col]))
    np.testing.assert_array_equal(cut.edge_weight.numpy() + 1, expected.data)
    assert cut.x.layout == (torch.sparse_csr if sparse else torch.strided)
    assert torch.equal(cut.x.to_dense(), demo_graph.x.to_dense()[kept])
    assert torch.equal(cut.y, demo_graph.y[kept])
    assert bool(cut.train_mask.all())
    assert not bool((cut.val_mask | cut.test_mask).any())
    assert cut.split_origin.endswith("training nodes only")
    assert load_graph(cut).num_nodes == 80


def test_the_two_cuts_share_no_node_and_no_edge(graph: Data) -> None:
    seen, unseen = training_subgraph(graph), unseen_subgraph(graph)
    train = graph["train_mask"]
    ours, theirs = train.nonzero().flatten(), (~train).nonzero().flatten()
    assert sorted([*ours.tolist(), *theirs.tolist()]) == list(range(200))
    assert not weights(seen, ours).keys() & weights(unseen, theirs).keys()


def test_masks_of_the_cuts(graph: Data) -> None:
    seen, unseen = training_subgraph(graph), unseen_subgraph(graph)
    assert bool(seen["train_mask"].all())
    assert not bool((seen["val_mask"] | seen["test_mask"]).any())
    assert not bool(unseen["train_mask"].any())
    for key in ("val_mask", "test_mask"):
        assert int(unseen[key].sum()) == int(graph[key].sum()) > 0
    assert "training nodes only" in seen.split_origin


def test_nothing_outside_the_training_nodes_is_in_the_cut(graph: Data) -> None:
    """Other features, labels and edges everywhere else: the cut is the same."""
    other, train = graph.clone(), graph["train_mask"]
    outside = ~train
    x = rows(graph)
    x[outside] = 7.0
    other.x = x.to_sparse_csr()
    other.y = torch.where(outside, 0, graph["y"])
    kept = train[graph["edge_index"]].all(dim=0)
    other.edge_index, other.edge_weight = graph["edge_index"][:, kept], graph["edge_weight"][kept]
    left, right = training_subgraph(other), training_subgraph(graph)
    assert torch.equal(rows(left), rows(right))
    for key in ("y", "edge_index", "edge_weight", "train_mask"):
        assert torch.equal(left[key], right[key])
    assert left.seen == right.seen


def test_the_graph_stays_as_it_was(graph: Data) -> None:
    before = graph.clone()
    training_subgraph(graph)
    unseen_subgraph(graph)
    assert sorted(graph.keys()) == sorted(before.keys())
    for key in ("y", "edge_index", "edge_weight", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(graph[key], before[key])


@pytest.mark.parametrize("layout", ["dense", "none"])
def test_other_features(graph: Data, layout: str) -> None:
    other = graph.clone()
    other.x = rows(graph) if layout == "dense" else None
    cut = training_subgraph(other)
    if layout == "none":
        assert cut.x is None
        assert cut.num_nodes == int(graph["train_mask"].sum())
    else:
        assert torch.equal(cut["x"], rows(graph)[graph["train_mask"]])


def test_a_graph_without_labels_or_weights_can_be_cut() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    bare = Data(x=torch.eye(4), edge_index=edges, train_mask=torch.tensor([True, False, True, True]), num_nodes=4)
    cut = training_subgraph(bare)
    assert cut["edge_index"].tolist() == [[1, 2], [2, 1]]
    assert cut["x"].tolist() == torch.eye(4)[[0, 2, 3]].tolist()
    assert "edge_weight" not in cut
    assert "y" not in cut
    empty = induced_subgraph(bare, torch.tensor([True, False, False, True]))
    assert empty["edge_index"].shape == (2, 0)


# What a file is told


def test_the_cut_remembers_which_nodes_it_shows(graph: Data) -> None:
    seen = training_subgraph(graph).seen
    assert seen == Seen(nodes="train", training_nodes=training_digest(graph), split=0, split_seed=0)


def test_the_digest_is_of_the_training_nodes_alone(graph: Data) -> None:
    digest = training_digest(graph)
    assert len(digest) == 16
    relabelled = graph.clone()
    relabelled.y = torch.zeros_like(graph["y"])
    relabelled.val_mask = graph["test_mask"]
    assert training_digest(relabelled) == digest
    for node in (int(graph["train_mask"].nonzero()[0]), int((~graph["train_mask"]).nonzero()[0])):
        other = graph.clone()
        other.train_mask = graph["train_mask"].clone()
        other.train_mask[node] ^= True
        assert training_digest(other) != digest


def test_split_and_seed_are_remembered() -> None:
    drawn = citation_graph(nodes=200, classes=3, features=60)
    for key in ("train_mask", "val_mask", "test_mask"):
        del drawn[key]
    first, second = load_graph(drawn, seed=4), load_graph(drawn, seed=5)
    assert (first.split_index, first.split_seed) == (0, 4)
    assert training_subgraph(first).seen.split_seed == 4
    assert training_digest(first) != training_digest(second)
    assert load_graph(first, seed=9).split_seed == 4  # its masks are there already
    redrawn = first.clone()
    for key in ("train_mask", "val_mask", "test_mask"):
        del redrawn[key]
    assert load_graph(redrawn, seed=5).split_seed == 5
    assert training_digest(load_graph(redrawn, seed=5)) == training_digest(second)
    several = drawn.clone()
    for key in ("train_mask", "val_mask", "test_mask"):
        several[key] = torch.stack([first[key], second[key]], dim=1)
    chosen = load_graph(several, split=1)
    assert training_subgraph(chosen).seen.split == 1
    assert training_digest(chosen) == training_digest(second)
    assert load_graph(chosen).split_index == 1


def test_training_edges_keep_the_split(graph: Data) -> None:
    numbered = graph.clone()
    numbered.split_index, numbered.split_seed = 2, 7
    cut = training_edges(numbered, 3)
    assert (cut.split_index, cut.split_seed) == (2, 7)
    assert cut.seen == Seen(edges="train", edge_seed=3)
    assert cut["edge_index"].shape[1] == 2 * split_edges(graph, 3).train.shape[1]


def test_the_file_says_what_was_seen(graph: Data) -> None:
    assert plgc.condense(graph, nodes=4, settings=QUICK).seen == Seen()
    for cut in (training_subgraph(graph), training_edges(graph, 1)):
        condensed = plgc.condense(cut, nodes=4, settings=QUICK)
        assert condensed.seen == cut.seen
        assert condensed.source["nodes"] == cut.num_nodes
        assert condensed.source["edges"] == cut["edge_index"].shape[1]


# Refusals


def test_without_training_nodes_there_is_no_cut(graph: Data) -> None:
    missing, empty, full = graph.clone(), graph.clone(), graph.clone()
    del missing.train_mask
    empty.train_mask = torch.zeros_like(graph["train_mask"])
    full.train_mask = torch.ones_like(graph["train_mask"])
    for bad in (missing, empty):
        for cut in (training_subgraph, unseen_subgraph, training_digest):
            with pytest.raises(GraphError, match="no training nodes"):
                cut(bad)
    with pytest.raises(GraphError, match="nothing is left unseen"):
        unseen_subgraph(full)


# Real graphs, cut as Flickr and Reddit are published: training nodes first, the others unseen


def test_flickr_is_cut_at_its_published_split(data_dir: Path) -> None:
    graph = load_graph(data_dir / "flickr_saint_structure.npz")
    cut = training_subgraph(graph)
    assert cut.num_nodes == 44_625
    assert cut.seen.nodes == "train"
    assert cut.edge_index is not None
    kept = graph.train_mask.nonzero().flatten()
    inside = graph.train_mask[graph.edge_index].all(dim=0)
    assert torch.equal(kept[cut.edge_index], graph.edge_index[:, inside])
    rest = unseen_subgraph(graph)
    assert rest.num_nodes == 22_312 + 22_313
    assert not bool(rest.train_mask.any())


@pytest.mark.slow
def test_a_real_graph_is_condensed_from_its_training_nodes_and_scored_on_the_others(data_dir: Path) -> None:
    """Actor's first fixed split, 48 / 32 / 20 %: what the unseen nodes hold does not reach the file."""
    graph = load_graph(data_dir / "actor.npz", split=1)
    graph.x = rows(graph)
    changed = graph.clone()
    changed.x[~graph.train_mask] = 1.0
    condensed, other = (plgc.condense(training_subgraph(g), nodes=12, settings=QUICK) for g in (graph, changed))
    assert condensed.to_bytes() == other.to_bytes()
    assert condensed.source["nodes"] == int(graph.train_mask.sum())
    result = evaluate([condensed], data_dir / "actor.npz")
    assert result["inductive"] is True
    assert result["split"] == "split 1 of 10"
    assert 15 < result["accuracy"]["mean"] < 50
