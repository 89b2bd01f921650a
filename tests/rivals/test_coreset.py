from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given as given_some
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.graphs import training_labels
from plgc.graphs.bare import bare_graph
from plgc.rivals.coreset import class_output, class_shares, herding_nodes, kcenter_nodes, random_nodes
from plgc.rivals.frame import RivalRun
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import scale_rows
from quick_rivals import KEPT, NODES, condense

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=8)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labels_of(sizes: list[int]) -> Tensor:
    """Labels with the given class sizes, in a fixed shuffled order."""
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    return y[torch.randperm(y.numel(), generator=seeded(1))]


def points(nodes: int, seed: int = 0, width: int = 5) -> Tensor:
    """Far from the origin, and in double precision, so that references agree to the last choice."""
    return torch.randn(nodes, width, generator=seeded(seed), dtype=torch.float64) + 3.0


def slow_herding(z: Tensor, number: int) -> list[int]:
    """Literally: the next is whichever brings the mean of the chosen closest to the mean of all."""
    mean, chosen = z.mean(dim=0), []
    for _ in range(number):
        rest = [v for v in range(len(z)) if v not in chosen]
        chosen.append(min(rest, key=lambda v: float((z[[*chosen, v]].mean(dim=0) - mean).norm())))
    return chosen


def slow_kcenter(z: Tensor, number: int) -> list[int]:
    """Literally: nearest to the mean, then always the farthest from its nearest center."""
    distance = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    chosen = [int((z - z.mean(dim=0)).norm(dim=1).argmin())]
    while len(chosen) < number:
        rest = [v for v in range(len(z)) if v not in chosen]
        chosen.append(max(rest, key=lambda v: float(distance[v, chosen].min())))
    return chosen


def radius(z: Tensor, centers: list[int] | tuple[int, ...]) -> float:
    return float(torch.cdist(z, z[list(centers)]).min(dim=1).values.max())


@given_some(SIZES, st.integers(1, 400))
def test_class_shares_sum_and_stay_within_bounds(sizes: list[int], count: int) -> None:
    y = labels_of(sizes)
    if count < len(sizes):
        with pytest.raises(LabelError, match=rf"{count} node\(s\) for {len(sizes)} classes"):
            class_shares(y, torch.arange(len(y)), count)
        return
    shares = class_shares(y, torch.arange(len(y)), count)
    assert list(shares) == list(range(len(sizes)))
    assert sum(shares.values()) == min(count, len(y))
    assert all(1 <= share <= size for share, size in zip(shares.values(), sizes, strict=True))
    # Proportional: classes above the minimum lie within one node of a common rate.
    above = [(share, size) for share, size in zip(shares.values(), sizes, strict=True) if share > 1]
    if above:
        low = max(Fraction(share - 1, size) for share, size in above)
        high = min(Fraction(share + 1, size) for share, size in zip(shares.values(), sizes, strict=True))
        assert low < high


def test_class_shares_by_hand() -> None:
    y = labels_of([50, 30, 20])
    everyone = torch.arange(100)
    assert class_shares(y, everyone, 10) == {0: 5, 1: 3, 2: 2}
    assert class_shares(y, everyone, 11) == {0: 6, 1: 3, 2: 2}  # quotas 5.5, 3.3, 2.2
    assert class_shares(y, everyone, 8) == {0: 4, 1: 2, 2: 2}  # 4, 2.4, 1.6
    assert class_shares(labels_of([96, 1, 3]), everyone, 10) == {0: 8, 1: 1, 2: 1}
    assert class_shares(labels_of([2, 2]), torch.arange(4), 3) == {0: 2, 1: 1}  # equal remainders: the smaller class
    assert class_shares(y, (y != 1).nonzero().flatten(), 7) == {0: 5, 2: 2}  # a class without candidates gets none


@settings(max_examples=30)
@given_some(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(0, 1000), st.data())
def test_every_choice_is_a_sorted_subset_with_the_right_shares(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    y = torch.cat([labels_of(sizes), torch.full((5,), -1)])
    candidates = (y >= 0).nonzero().flatten()
    count = data.draw(st.integers(len(sizes), sum(sizes) + 2))
    z = points(len(y), seed)
    choices = [
        random_nodes(candidates, y, count, seeded(seed)),
        herding_nodes(z, candidates, y, count),
        kcenter_nodes(z, candidates, y, count),
    ]
    shares = class_shares(y, candidates, count)
    for chosen in choices:
        assert chosen.dtype == torch.int64
        assert chosen.tolist() == sorted(set(chosen.tolist()))
        assert dict(enumerate(torch.bincount(y[chosen]).tolist())) == shares
    for chosen in (herding_nodes(z, candidates, None, count), random_nodes(candidates, None, count, seeded(seed))):
        assert len(set(chosen.tolist()) & set(candidates.tolist())) == min(count, sum(sizes))


@settings(max_examples=25, deadline=None)
@given_some(st.integers(3, 25), st.integers(1, 25), st.integers(0, 1000))  # of two nodes both are nearest to the mean
def test_herding_is_the_greedy_match_of_the_mean(nodes: int, count: int, seed: int) -> None:
    z, count = points(nodes, seed), min(nodes, count)
    assert herding_nodes(z, torch.arange(nodes), None, count).tolist() == sorted(slow_herding(z, count))


@settings(max_examples=25, deadline=None)
@given_some(st.integers(3, 25), st.integers(1, 25), st.integers(0, 1000))  # of two nodes both are nearest to the mean
def test_kcenter_is_the_farthest_first_traversal(nodes: int, count: int, seed: int) -> None:
    z, count = points(nodes, seed), min(nodes, count)
    assert kcenter_nodes(z, torch.arange(nodes), None, count).tolist() == sorted(slow_kcenter(z, count))


@pytest.mark.parametrize(("choose", "slow"), [(herding_nodes, slow_herding), (kcenter_nodes, slow_kcenter)])
def test_with_labels_every_class_is_chosen_by_itself(choose, slow) -> None:
    y, z = labels_of([20, 9, 14]), points(43)
    candidates = torch.arange(3, 43)
    expected = []
    for label, share in class_shares(y, candidates, 13).items():
        members = candidates[y[candidates] == label]
        expected += members[slow(z[members], share)].tolist()
    assert choose(z, candidates, y, 13).tolist() == sorted(expected)


def test_herding_beats_chance_and_improves_with_more_nodes() -> None:
    errors: dict[str, list[list[float]]] = {"herding": [], "random": []}
    for seed in range(10):
        z, pool = points(300, seed, width=8), torch.arange(300)
        for name, kept in errors.items():
            chosen = [
                herding_nodes(z, pool, None, k) if name == "herding" else random_nodes(pool, None, k, seeded(seed))
                for k in (2, 10, 50, 150)
            ]
            kept.append([float((z[index].mean(dim=0) - z.mean(dim=0)).norm()) for index in chosen])
    herding, chance = (torch.tensor(errors[name]).mean(dim=0) for name in ("herding", "random"))
    assert bool((herding[1:] < 0.5 * herding[:-1]).all())
    assert bool((herding < 0.5 * chance).all())


@settings(max_examples=25, deadline=None)
@given_some(st.integers(2, 9), st.integers(1, 4), st.integers(0, 1000))
def test_kcenter_covers_within_twice_the_best_radius(nodes: int, count: int, seed: int) -> None:
    z, count = points(nodes, seed, width=2), min(count, nodes)
    best = min(radius(z, centers) for centers in itertools.combinations(range(nodes), count))
    assert radius(z, kcenter_nodes(z, torch.arange(nodes), None, count).tolist()) <= 2 * best + 1e-9


@pytest.mark.parametrize("choose", [herding_nodes, kcenter_nodes])
def test_equal_rows_are_chosen_once_each_smaller_numbers_first(choose) -> None:
    z = torch.ones(6, 3)
    assert choose(z, torch.tensor([5, 1, 4, 2]), None, 3).tolist() == [1, 2, 4]
    assert choose(z, torch.tensor([5, 1, 4, 2]), None, 9).tolist() == [1, 2, 4, 5]


def test_random_nodes_are_uniform_within_a_class_and_seeded() -> None:
    y = labels_of([10, 30])
    everyone = torch.arange(40)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    draws = torch.stack([random_nodes(everyone, y, 12, seeded(seed)) for seed in range(400)])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draws[3], random_nodes(everyone.flip(0), y, 12, seeded(3)))
    often = torch.bincount(draws.flatten(), minlength=40) / 400
    assert bool(((often - 0.3).abs() < 0.12).all())  # 3 of 10 and 9 of 30; five standard deviations


def test_labels_and_rows_of_other_nodes_do_not_matter() -> None:
    y, z, candidates = labels_of([30, 20]), points(50), torch.arange(0, 50, 2)
    other = torch.ones(50, dtype=torch.bool)
    other[candidates] = False
    poisoned_y, poisoned_z = y.clone(), z.clone()
    poisoned_y[other], poisoned_z[other] = -7, torch.nan
    assert class_shares(y, candidates, 9) == class_shares(poisoned_y, candidates, 9)
    for labelled in (True, False):
        a, b = (y, poisoned_y) if labelled else (None, None)
        assert torch.equal(random_nodes(candidates, a, 9, seeded(0)), random_nodes(candidates, b, 9, seeded(0)))
        for choose in (herding_nodes, kcenter_nodes):
            assert torch.equal(choose(z, candidates, a, 9), choose(poisoned_z, candidates.flip(0), b, 9))


def test_errors_name_the_value_and_the_way_out() -> None:
    y, everyone = labels_of([5, 5, 5]), torch.arange(15)
    with pytest.raises(SettingError, match="count=0"):
        random_nodes(everyone, None, 0, seeded(0))
    with pytest.raises(SettingError, match="0 candidates"):
        class_shares(y, everyone[:0], 3)
    with pytest.raises(LabelError, match=r"node 6 has label -1.*y=None"):
        class_shares(torch.where(everyone == 6, -1, y), everyone, 3)
    with pytest.raises(LabelError, match=r"2 node\(s\) for 3 classes"):
        herding_nodes(points(15), everyone, y, 2)


# As condensers


def chosen_nodes(condensed: plgc.CondensedGraph, graph: Data) -> list[int]:
    """Which nodes of the graph they are, found by their features."""
    scaled = scale_rows(graph["x"].to_dense(), condensed.scaling)
    distance = torch.cdist(condensed.features, scaled, compute_mode="donot_use_mm_for_euclid_dist")
    assert float(distance.min(1).values.max()) < 1e-6
    found = distance.argmin(1).tolist()
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize("name", ["random", "herding", "herding-labelfree", "kcenter-labelfree"])
def test_a_choice_keeps_training_nodes_their_labels_and_their_edges(name: str, weighted: Data) -> None:
    given = training_labels(weighted)
    condensed = condense(name, weighted, given, nodes=30)
    found = chosen_nodes(condensed, weighted)
    assert len(found) == 30
    assert bool(weighted["train_mask"][found].all())
    assert condensed.labels is not None
    assert condensed.labels.tolist() == weighted["y"][found].tolist()
    assert condensed.counts.tolist() == [1] * 30
    weight = dict(zip(map(tuple, weighted["edge_index"].T.tolist()), weighted["edge_weight"].tolist(), strict=True))
    expected = {pair: w for pair, w in weight.items() if {*pair} <= {*found}}
    assert len(expected) > 2
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    edges = [(found[a], found[b]) for a, b in condensed.edge_index.T.tolist()]
    assert dict(zip(edges, condensed.edge_weight.tolist(), strict=True)) == expected
    if not name.endswith("labelfree"):
        share = torch.bincount(weighted["y"][found]) / torch.bincount(weighted["y"][given.train])
        assert float(share.max() - share.min()) < 0.1  # in proportion to the training labels


def test_no_more_nodes_are_kept_than_have_labels(weighted: Data) -> None:
    first = training_labels(weighted).train[:7]
    condensed = condense("random", weighted, training_labels(weighted, train=first, validate=False), nodes=30)
    assert sorted(chosen_nodes(condensed, weighted)) == first.tolist()
    assert (condensed.num_nodes, condensed.nodes_requested) == (7, 30)


def test_dense_features_without_weights(weighted: Data) -> None:
    plain = weighted.clone()
    plain.x = weighted["x"].to_dense()
    del plain.edge_weight
    given = training_labels(weighted, validate=False)
    condensed, with_weights = (condense("random", one, given) for one in (plain, weighted))
    assert condensed.edge_weight is None
    assert torch.allclose(condensed.features, with_weights.features)
    assert torch.equal(condensed.edge_index, with_weights.edge_index)  # pyright: ignore


def test_wrong_labels_are_kept(weighted: Data) -> None:
    condensed = condense("random", weighted, training_labels(weighted, noise=1.0, seed=3))
    found = chosen_nodes(condensed, weighted)
    assert bool((condensed.labels != weighted["y"][found]).all())  # pyright: ignore


def test_the_output_that_nodes_are_chosen_by(weighted: Data) -> None:
    """Log-probabilities of a GCN; validation labels, where there are any, choose its epoch."""
    given = training_labels(weighted)
    run = RivalRun("herding", bare_graph(weighted), given, KEPT, 0, "l1")
    output = class_output(run)
    assert output.shape == (NODES, 3)
    assert torch.allclose(output.exp().sum(1), torch.ones(NODES), atol=1e-5)
    right = output.argmax(1) == weighted["y"]
    assert float(right[given.train].float().mean()) > 0.8
    without = class_output(replace(run, given=replace(given, val=given.val[:0])))
    last = without.argmax(1) == weighted["y"]
    assert float(right[given.val].float().mean()) >= float(last[given.val].float().mean())
    wrong = torch.where(torch.isin(torch.arange(NODES), given.val), (given.y + 1) % 3, given.y)
    assert not torch.equal(class_output(replace(run, given=replace(given, y=wrong))), output)
    blind = replace(given, y=wrong, val=given.val[:0])
    assert torch.equal(class_output(replace(run, given=blind)), without)


def test_impossible_sizes(weighted: Data) -> None:
    with pytest.raises(LabelError, match="3 classes"):
        condense("random", weighted, training_labels(weighted), nodes=2)
    with pytest.raises(SettingError, match="count=0"):
        condense("random", weighted, training_labels(weighted), nodes=0)
