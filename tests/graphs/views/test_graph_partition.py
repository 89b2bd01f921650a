from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph, save_stored, training_subgraph
from plgc.graphs.views import edges, stream
from plgc.graphs.views.partition import LEAST_SHARE, cut_edges, cut_part, cut_parts, partition_nodes
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, LabelError, MissingExtraError, SettingError

SEEDS = st.integers(-5, 2**40)
needs_metis = pytest.mark.skipif(find_spec("pymetis") is None, reason="pymetis is not installed")
METIS, STREAM = (pytest.param(how, marks=needs_metis) for how in ("metis", "stream"))


@pytest.fixture(scope="module")
def graph() -> Data:
    """With a weight on every edge and a second set of labels; shared, so no test may change it."""
    made = load_graph(citation_graph(nodes=300, classes=3, features=60))
    row, column = made["edge_index"]
    made.edge_weight = (1 + torch.minimum(row, column) + 1000 * torch.maximum(row, column)).float()
    made.y_multi = torch.nn.functional.one_hot(made["y"])
    return made


@st.composite
def small_graphs(draw: st.DrawFn) -> Data:
    """From no edge at all to complete, some nodes without a label."""
    nodes = draw(st.integers(3, 14))
    every = [(a, b) for a in range(nodes) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(every), max_size=len(every), unique=True))
    y = draw(st.lists(st.integers(-1, 2), min_size=nodes, max_size=nodes))
    y[0] = 0
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return load_graph(Data(edge_index=edge_index, y=torch.tensor(y), num_nodes=nodes))


def planted(groups: int = 4, size: int = 60, seed: int = 0) -> tuple[Data, Tensor]:
    """Dense groups with few edges between them, and the group of every node."""
    group = torch.arange(groups * size) % groups
    chance = torch.where(group[:, None] == group, 0.2, 0.004).triu(1)
    edges = torch.bernoulli(chance, generator=torch.Generator().manual_seed(seed)).nonzero().T
    return load_graph(Data(edge_index=edges, y=group, num_nodes=groups * size)), group


def rows(graph: Data) -> Tensor:
    return graph["x"].to_dense()


def neighbours(graph: Data) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(graph["num_nodes"])]
    for a, b in graph["edge_index"].T.tolist():
        found[a].add(b)
        found[b].add(a)
    return found


def sizes(part: Tensor, parts: int) -> list[int]:
    return torch.bincount(part, minlength=parts).tolist()


# The partition


@pytest.mark.parametrize("how", ["random", METIS, STREAM, "skewed"])
@settings(deadline=None, max_examples=60)
@given(small_graphs(), SEEDS, st.data())
def test_every_node_has_a_part_and_no_part_is_empty(how: str, graph: Data, seed: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(2, graph["num_nodes"]))
    before = torch.get_rng_state()
    part = partition_nodes(graph, parts, how, seed=seed, alpha=0.1)
    assert torch.equal(torch.get_rng_state(), before)
    assert part.dtype == torch.int64
    assert part.shape == (graph["num_nodes"],)
    assert len(sizes(part, parts)) == parts
    assert min(sizes(part, parts)) >= 1
    if how == "random":
        assert max(sizes(part, parts)) - min(sizes(part, parts)) <= 1
    assert torch.equal(part, partition_nodes(graph, parts, how, seed=seed, alpha=0.1))


@pytest.mark.parametrize("how", ["random", METIS, STREAM, "skewed"])
def test_the_seed_decides(graph: Data, how: str) -> None:
    first, again, other = (partition_nodes(graph, 4, how, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_random_parts_are_uniform() -> None:
    graph = Data(edge_index=torch.zeros(2, 0, dtype=torch.int64), num_nodes=6)
    together = torch.zeros(6)
    for seed in range(600):
        part = partition_nodes(graph, 3, "random", seed=seed)
        together += part == part[0]
    # of the five others one is with the first, each as often: χ² with 4 degrees of freedom, exceeded once in 5,000
    assert float(((together[1:] - 120) ** 2 / 120).sum()) < 22


@pytest.mark.parametrize("how", ["random", METIS, STREAM])
def test_labels_do_not_decide_where_they_must_not(graph: Data, how: str) -> None:
    bare = Data(edge_index=graph["edge_index"], num_nodes=300)
    assert torch.equal(partition_nodes(graph, 3, how), partition_nodes(bare, 3, how))


@pytest.mark.parametrize("how", [METIS, STREAM])
def test_planted_groups_are_found(how: str) -> None:
    graph, group = planted()
    found, drawn = (partition_nodes(graph, 4, way) for way in (how, "random"))
    least = cut_edges(graph["edge_index"], group)
    assert cut_edges(graph["edge_index"], found) <= 1.1 * least
    assert cut_edges(graph["edge_index"], drawn) > 3 * least
    assert max(sizes(found, 4)) <= 1.1 * 60


@pytest.mark.parametrize("how", [METIS, STREAM])
@pytest.mark.parametrize("parts", [3, 12])  # recursive bisection, and k-way
def test_few_edges_are_cut_and_sizes_are_alike(graph: Data, parts: int, how: str) -> None:
    found, drawn = (partition_nodes(graph, parts, way) for way in (how, "random"))
    assert cut_edges(graph["edge_index"], found) < 0.7 * cut_edges(graph["edge_index"], drawn)
    assert max(sizes(found, parts)) <= 1.2 * 300 / parts


@pytest.mark.parametrize("how", [METIS, STREAM])
def test_edges_may_be_given_in_one_direction(graph: Data, how: str) -> None:
    row, column = graph["edge_index"]
    once = Data(edge_index=graph["edge_index"][:, row > column], num_nodes=300)
    assert torch.equal(partition_nodes(once, 3, how), partition_nodes(graph, 3, how))


@needs_metis
def test_a_graph_on_disk_is_cut_in_blocks_as_in_memory(
    graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = graph.clone()
    dense.x = rows(graph)
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    monkeypatch.setattr(edges, "BLOCK_EDGES", 100)
    monkeypatch.setattr(stream, "BLOCK_ENTRIES", 100)
    stored = load_graph(save_stored(dense, tmp_path / "stored"))
    assert mapped.is_mapped(stored["edge_index"])
    part = partition_nodes(stored, 4, "stream")
    assert torch.equal(part, partition_nodes(dense, 4, "stream"))
    assert cut_edges(stored["edge_index"], part) == cut_edges(dense["edge_index"], part)
    for one, other in zip(cut_parts(stored, part, halo=1), cut_parts(dense, part, halo=1), strict=True):
        assert torch.equal(one["edge_index"], other["edge_index"])
        assert torch.equal(one["edge_weight"], other["edge_weight"])
        assert torch.equal(one["x"], other["x"])
        assert torch.equal(one["node_index"], other["node_index"])


@needs_metis
def test_a_hub_with_more_neighbours_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = torch.arange(1, 400)
    star = Data(edge_index=torch.stack([torch.zeros_like(leaves), leaves]), num_nodes=400)
    monkeypatch.setattr(stream, "BLOCK_ENTRIES", 50)
    assert max(sizes(partition_nodes(star, 4, "stream"), 4)) <= 1.2 * 100


@needs_metis
def test_groups_are_numbered_without_gaps() -> None:
    given = np.random.default_rng(0).choice([3, 4, 9, 17], 50).astype(np.int32)
    group = given.copy()
    sizes = stream.renumber(group, np.bincount(group, minlength=20))
    _, expected, counts = np.unique(given, return_inverse=True, return_counts=True)
    assert np.array_equal(group, expected)
    assert np.array_equal(sizes, counts)


def test_only_the_heaviest_links_between_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, group = planted()
    edge_index = graph["edge_index"]
    starts = stream.row_starts(edge_index, len(group))
    links, weights = stream.link_groups(edge_index, starts, group.numpy(), 4)
    across = [int(((group[edge_index[0]] == a) & (group[edge_index[1]] == b)).sum()) for a, b in links.T]
    assert links.shape == (2, 12)
    assert weights.tolist() == across
    monkeypatch.setattr(stream, "MAX_LINKS", 3)
    kept, heavy = stream.link_groups(edge_index, starts, group.numpy(), 4)
    assert kept.shape == (2, 6)
    assert sorted(heavy.tolist()) == sorted(across)[-6:]


def unevenness(graph: Data, part: Tensor, parts: int) -> float:
    """Mean share of its class's largest part, over the classes."""
    y = graph["y"]
    return sum(max(sizes(part[y == c], parts)) / int((y == c).sum()) for c in range(3)) / 3


def test_the_smaller_alpha_the_more_skewed(graph: Data) -> None:
    mean = {
        alpha: sum(unevenness(graph, partition_nodes(graph, 4, "skewed", seed=s, alpha=alpha), 4) for s in range(20))
        / 20
        for alpha in (0.05, 1.0, 1000.0)
    }
    assert mean[0.05] > 0.8 > mean[1.0] > 0.4
    assert 0.25 <= mean[1000.0] < 0.3  # nearly an equal share of every class


@pytest.mark.parametrize(("alpha", "parts"), [(1e-9, 3), (0.1, 3), (0.1, 40), (1.0, 100), (0.5, 300)])
def test_skewed_parts_have_a_least_size(graph: Data, alpha: float, parts: int) -> None:
    for seed in range(5):
        part = partition_nodes(graph, parts, "skewed", seed=seed, alpha=alpha)
        assert min(sizes(part, parts)) >= max(1, int(LEAST_SHARE * 300 / parts))


def test_nodes_without_a_label_are_spread_evenly(graph: Data) -> None:
    partly = graph.clone()
    partly.y = graph["y"].clone()
    partly.y[100:] = -1
    part = partition_nodes(partly, 4, "skewed", alpha=0.1)
    assert sizes(part[100:], 4) == [50] * 4


# Parts


@settings(deadline=None)
@given(small_graphs(), st.integers(0, 3), SEEDS, st.booleans())
def test_the_halo_is_what_lies_within_its_hops(graph: Data, halo: int, seed: int, directed: bool) -> None:
    if directed:  # an edge leads to both its ends, whichever way it is written
        graph.edge_index = graph["edge_index"][:, graph["edge_index"][0] < graph["edge_index"][1]]
    part = partition_nodes(graph, 3, "random", seed=seed)
    around = neighbours(graph)
    for number, cut in enumerate(cut_parts(graph, part, halo=halo)):
        core = {node for node in range(graph["num_nodes"]) if part[node] == number}
        reached = set(core)
        for _ in range(halo):
            reached |= {other for node in reached for other in around[node]}
        assert cut["node_index"].tolist() == sorted(reached)
        assert set(cut["node_index"][cut["core_mask"]].tolist()) == core
        assert cut.num_nodes == len(reached)
        edges = graph["edge_index"].T.tolist()
        inside = [[a, b] for a, b in edges if a in reached and b in reached]
        assert cut["node_index"][cut["edge_index"]].T.tolist() == inside


@settings(deadline=None)
@given(small_graphs(), st.integers(2, 3), SEEDS)
def test_without_a_halo_every_node_is_in_one_part_and_every_edge_in_one_or_cut(
    graph: Data, parts: int, seed: int
) -> None:
    part = partition_nodes(graph, parts, "random", seed=seed)
    cuts = cut_parts(graph, part)
    assert all(bool(cut["core_mask"].all()) for cut in cuts)
    assert sorted(torch.cat([cut["node_index"] for cut in cuts]).tolist()) == list(range(graph["num_nodes"]))
    kept = sum(cut["edge_index"].shape[1] // 2 for cut in cuts)
    assert kept + cut_edges(graph["edge_index"], part) == graph["edge_index"].shape[1] // 2


@pytest.mark.parametrize("dense", [False, True])
def test_nodes_and_edges_keep_what_they_carry(graph: Data, dense: bool) -> None:
    whole = graph.clone()
    if dense:
        whole.x = rows(graph)
    part = partition_nodes(whole, 3, "random", seed=4)
    weights = dict(zip(map(tuple, whole["edge_index"].T.tolist()), whole["edge_weight"].tolist(), strict=True))
    for cut in cut_parts(whole, part, halo=1):
        index = cut["node_index"]
        assert cut["x"].layout == (torch.strided if dense else torch.sparse_csr)
        assert torch.equal(rows(cut), rows(graph)[index])
        for key in ("y", "y_multi", "train_mask", "val_mask", "test_mask"):
            assert torch.equal(cut[key], graph[key][index])
        edges = index[cut["edge_index"]].T.tolist()
        assert cut["edge_weight"].tolist() == [weights[a, b] for a, b in edges]
        assert cut.name == graph.name
        assert (cut.split_index, cut.split_seed) == (graph.split_index, graph.split_seed)


def test_a_part_of_the_training_nodes_still_says_so(graph: Data) -> None:
    seen = training_subgraph(graph)
    cut = cut_part(seen, partition_nodes(seen, 2, "random"), 1)
    assert cut.seen == seen.seen
    assert "seen" not in cut_part(graph, partition_nodes(graph, 2, "random"), 1)


def test_one_part_is_the_same_alone(graph: Data) -> None:
    part = partition_nodes(graph, 3, "random")
    alone, among = cut_part(graph, part, 2, halo=1), cut_parts(graph, part, halo=1)[2]
    assert torch.equal(alone["node_index"], among["node_index"])
    assert torch.equal(alone["edge_index"], among["edge_index"])


def test_cut_edges_are_counted_once() -> None:
    part = torch.tensor([0, 0, 1, 1, 2])
    once = torch.tensor([[0, 1, 2, 4], [1, 2, 3, 0]])
    assert cut_edges(once, part) == 2
    assert cut_edges(torch.cat([once, once.flip(0), once], dim=1), part) == 2
    assert cut_edges(once[:, :0], part) == 0


# Refusals


@pytest.mark.parametrize("parts", [1, 0, -3, 2.0, True])
def test_fewer_than_two_parts_are_refused(graph: Data, parts: int) -> None:
    with pytest.raises(SettingError, match=f"parts is {parts}: a graph is cut into at least 2"):
        partition_nodes(graph, parts, "random")


def test_wrong_settings_are_refused(graph: Data) -> None:
    with pytest.raises(SettingError, match="parts is 301, but the graph has only 300 nodes"):
        partition_nodes(graph, 301, "random")
    with pytest.raises(SettingError, match="no partition 'louvain': choose random, metis, stream or skewed"):
        partition_nodes(graph, 3, "louvain")
    for alpha in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingError, match=f"alpha is {alpha}: .* above 0"):
            partition_nodes(graph, 3, "skewed", alpha=alpha)
    part = partition_nodes(graph, 3, "random")
    with pytest.raises(SettingError, match="halo is -1"):
        cut_parts(graph, part, halo=-1)
    with pytest.raises(SettingError, match=r"part 3 was asked for, there are 3 \(0 to 2\)"):
        cut_part(graph, part, 3)


def test_skewed_parts_need_labels(graph: Data) -> None:
    bare = Data(edge_index=graph["edge_index"], num_nodes=300)
    with pytest.raises(LabelError, match=r"no labels .* use random or metis"):
        partition_nodes(bare, 3, "skewed")


@pytest.mark.parametrize(
    "part", [torch.zeros(299, dtype=torch.int64), torch.zeros(300), torch.full((300,), -1), torch.zeros(300, 1).long()]
)
def test_what_is_no_partition_is_refused(graph: Data, part: Tensor) -> None:
    with pytest.raises(SettingError, match="expected the part of each of the 300 nodes"):
        cut_parts(graph, part)


def test_a_gap_in_the_numbers_is_refused(graph: Data) -> None:
    with pytest.raises(SettingError, match="part 1 of 3 has no nodes"):
        cut_parts(graph, 2 * (torch.arange(300) % 2))


def test_a_graph_without_edges_set_is_refused() -> None:
    with pytest.raises(GraphError, match="no edge_index"):
        cut_parts(Data(num_nodes=4), torch.tensor([0, 0, 1, 1]))


def test_a_missing_pymetis_is_named(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'plgc\[metis\]'"):
        partition_nodes(graph, 3, "metis")
