from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.artifact.members import told_of_members
from plgc.downstream.merge import weakest_release
from plgc.downstream.one_space import space_bytes
from plgc.graphs.attributes import Seen
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from quick import PLAIN, quick


@pytest.fixture(scope="module")
def pair(demo_graph: Data) -> list[plgc.CondensedGraph]:
    """Two sources with both channels: other seeds, sizes and widths."""
    made = ((quick(24, 16, plain=PLAIN), 12, 0), (quick(20, 16, plain=PLAIN), 8, 1))
    return [plgc.condense(demo_graph, nodes=nodes, seed=seed, settings=how) for how, nodes, seed in made]


def rows_of(graph: plgc.CondensedGraph, rows: slice) -> plgc.CondensedGraph:
    """Some of the rows as a source of their own."""
    assert graph.pseudo_labels is not None
    own = {name: getattr(graph, name)[rows] for name in ("features", "pseudo_labels", "counts")}
    return replace(graph, **own, nodes_requested=len(own["counts"]), fingerprint=None)


def rotated(graph: plgc.CondensedGraph, seed: int) -> plgc.CondensedGraph:
    """The same source in another space: every block of its pseudo-labels turned at random."""
    assert graph.pseudo_labels is not None
    generator, found = torch.Generator().manual_seed(seed), []
    for block in graph.pseudo_labels.split(list(graph.blocks), dim=1):
        random = torch.randn(block.shape[1], block.shape[1], generator=generator)
        found.append(block @ torch.linalg.qr(random)[0])
    return replace(graph, pseudo_labels=torch.cat(found, dim=1))


def cosines(one: Tensor | None, other: Tensor | None) -> Tensor:
    assert one is not None
    assert other is not None
    return one @ other.t()


def test_rows_of_two_spaces_come_into_one(demo_graph: Data) -> None:
    """The oracle are the pseudo-labels from before one half of the rows was turned at random."""
    whole = plgc.condense(demo_graph, nodes=40, settings=quick(24, 16))
    near, far = rows_of(whole, slice(0, 24)), rows_of(whole, slice(24, 40))
    apart = rotated(far, seed=3)
    merged = plgc.merge([near, apart], progress=False)
    assert whole.pseudo_labels is not None
    assert merged.pseudo_labels is not None
    wanted = cosines(near.pseudo_labels, far.pseudo_labels).flatten()
    found = cosines(merged.pseudo_labels[:24], merged.pseudo_labels[24:]).flatten()
    before = cosines(near.pseudo_labels, apart.pseudo_labels).flatten()
    assert float(torch.corrcoef(torch.stack([wanted, before]))[0, 1]) < 0.2
    assert float(torch.corrcoef(torch.stack([wanted, found]))[0, 1]) > 0.6


def test_angles_within_a_source_are_nearly_kept(pair: list[plgc.CondensedGraph]) -> None:
    merged = plgc.merge(pair, progress=False)
    assert merged.pseudo_labels is not None
    assert merged.blocks == pair[0].blocks == (24, 16, 12)
    for own, rows in zip(pair, merged.pseudo_labels.split([12, pair[1].num_nodes]), strict=True):
        angles = torch.stack([cosines(rows, rows).flatten(), cosines(own.pseudo_labels, own.pseudo_labels).flatten()])
        assert float(torch.corrcoef(angles)[0, 1]) > 0.95
    unit = unit_blocks(merged.pseudo_labels, merged.blocks)
    torch.testing.assert_close(merged.pseudo_labels, unit, rtol=0.02, atol=1e-3)  # a file has few digits
    torch.testing.assert_close(merged.features, torch.cat([s.features for s in pair]), rtol=0.04, atol=1e-3)
    assert torch.equal(merged.counts, torch.cat([source.counts for source in pair]))


def test_fewer_rows_are_means_of_all_rows(pair: list[plgc.CondensedGraph]) -> None:
    merged = plgc.merge(pair, nodes=6, progress=False)
    features = torch.cat([source.features for source in pair])
    assert merged.num_nodes <= merged.nodes_requested == 6
    assert int(merged.counts.sum()) == sum(int(source.counts.sum()) for source in pair)
    assert bool((merged.features <= 1.03 * features.amax(0)).all())  # a file has few digits
    assert bool((merged.features >= 0).all())
    total = torch.linalg.lstsq(features.t(), merged.features.t()).solution.sum(0)
    torch.testing.assert_close(total, torch.ones(merged.num_nodes), rtol=0.02, atol=0.02)


def test_the_result_is_a_file_like_any_other(pair: list[plgc.CondensedGraph], demo_graph: Data, tmp_path: Path) -> None:
    merged = plgc.merge(pair, nodes=10, seed=4, progress=False)
    path = merged.save(tmp_path / "one.safetensors")
    again = plgc.CondensedGraph.load(path)
    assert again.to_bytes() == merged.to_bytes() == plgc.merge(pair, nodes=10, seed=4, progress=False).to_bytes()
    assert (again.seed, again.method, again.fingerprint) == (4, "plgc", None)
    assert again.source == {name: sum(source.source[name] for source in pair) for name in ("nodes", "edges")} | {
        "features": pair[0].num_features
    }
    backbone = plgc.reconstruct(again)
    assert backbone.parts == plgc.reconstruct(pair[0]).parts
    assert len(backbone.embed(demo_graph)) == demo_graph.num_nodes
    twice = plgc.merge([again, pair[1]], progress=False)
    assert [step.how for step in twice.ancestry] == ["merge", "merge"]
    assert [parent.rows for parent in twice.ancestry[-1].parents] == [again.num_nodes, pair[1].num_nodes]
    assert twice.ancestry[-1].parents[0].checksum == hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_file_can_be_made_smaller(pair: list[plgc.CondensedGraph]) -> None:
    assert plgc.merge(pair[:1], nodes=5, progress=False).num_nodes <= 5


def test_sixty_four_sources(pair: list[plgc.CondensedGraph]) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(rows: int) -> plgc.CondensedGraph:
        vectors = unit_blocks(torch.randn(rows, 52, generator=generator), pair[0].blocks)
        features = torch.rand(rows, pair[0].num_features, generator=generator)
        return replace(pair[0], features=features, pseudo_labels=vectors, counts=torch.full((rows,), 5))

    merged = plgc.merge([drawn(2 + place % 3) for place in range(64)], nodes=40, progress=False)
    assert merged.blocks == pair[0].blocks
    assert int(merged.counts.sum()) == 5 * sum(2 + place % 3 for place in range(64))
    assert len(merged.ancestry[0].parents) == 64


def test_channels_are_those_that_all_sources_have(
    pair: list[plgc.CondensedGraph], sources: list[plgc.CondensedGraph], demo_graph: Data
) -> None:
    merged = plgc.merge([*pair, sources[1]], progress=False)  # which has 12 rows, one encoder and no plain channel
    assert (merged.blocks, merged.channels) == ((20,), ("edges",))
    without = plgc.condense(demo_graph, nodes=8, settings=replace(quick(8), encoders=(PLAIN,)))
    with pytest.raises(ArtifactError, match="no output in common"):
        plgc.merge([sources[1], without], progress=False)


# What a merged file claims


def test_a_merged_file_claims_no_more_than_its_weakest_source(pair: list[plgc.CondensedGraph]) -> None:
    every = {"preset": "default", "private": True}
    strong = every | {"min_cluster": 5, "max_share": 0.2, "clip": 1.0, "noise": 0.5, "dtype": "float8"}
    weak = every | {"min_cluster": 2, "max_share": 0.4, "clip": 2.0, "noise": 0.25, "dtype": "float16"}
    assert {"preset": "default", **weakest_release([strong, weak])} == weak
    weakest = {"min_cluster": 1, "max_share": 1.0, "private": False, "dtype": "float32", "preset": "merged"}
    assert weakest_release([strong, {}]) == weakest
    private, plain = (replace(source, settings=own) for source, own in zip(pair, (strong, {}), strict=True))
    merged = plgc.merge([private, plain], progress=False)
    assert told_of_members(merged)["members"] == "exposed"
    assert "noise" not in merged.settings
    assert [(one.min_cluster, one.max_share, one.noise) for one in merged.ancestry[0].parents] == [
        (5, 0.2, 0.5),
        (1, 1.0, None),
    ]


@pytest.mark.parametrize("other", [None, "default"])
def test_a_paper_file_among_others_is_not_taken_for_one(pair: list[plgc.CondensedGraph], other: str | None) -> None:
    own = {"preset": "paper", "min_cluster": 1, "max_share": 1.0}
    both = [own, own if other is None else {**own, "preset": other}]
    merged = plgc.merge([replace(s, settings=how) for s, how in zip(pair, both, strict=True)], progress=False)
    assert told_of_members(merged)["members"] == "exposed"


def test_no_group_is_smaller_than_the_sources_allow(pair: list[plgc.CondensedGraph]) -> None:
    least = int(torch.cat([source.counts for source in pair]).min())
    bounded = [replace(source, settings={**source.settings, "min_cluster": least}) for source in pair]
    merged = plgc.merge(bounded, nodes=15, progress=False)
    assert int(merged.counts.min()) >= merged.settings["min_cluster"] == least


# Refusals


def test_what_does_not_fit_is_refused(pair: list[plgc.CondensedGraph]) -> None:
    one, two = pair
    narrow = replace(two, features=two.features[:, :-1], source={})
    rival = replace(two, method="coarsening", pseudo_labels=None, labels=torch.zeros(two.num_nodes, dtype=torch.int64))
    for other, error, message in (
        (narrow, GraphError, f"{one.num_features} .* {one.num_features - 1}"),
        (replace(two, scaling="none"), GraphError, "feature scaling '.*' and 'none'"),
        (rival, ArtifactError, "made by coarsening: only those of plgc"),
        (replace(two, method="ctgc"), ArtifactError, "made by ctgc: only those of plgc"),
        (replace(two, seen=Seen("all", "train", 3)), GraphError, "shown different parts"),
        (replace(two, counts=two.counts + 2**60), ArtifactError, "that cannot be"),
        (replace(two, source={"nodes": 2**53, "features": two.num_features}), ArtifactError, "that cannot be"),
        (one, SettingError, "is given 2 times"),
    ):
        with pytest.raises(error, match=message):
            plgc.merge([one, other], progress=False)


def test_numbers_that_do_not_fit_are_refused(pair: list[plgc.CondensedGraph]) -> None:
    with pytest.raises(SettingError, match="nodes is 1: a condensed graph has at least 2"):
        plgc.merge(pair, nodes=1, progress=False)
    more = plgc.merge(pair, nodes=1000, progress=False)  # sources may have fewer rows than were asked of them
    assert (more.num_nodes, more.nodes_requested) == (sum(source.num_nodes for source in pair), 1000)
    with pytest.raises(SettingError, match="nothing to merge"):
        plgc.merge(pair[:1], progress=False)
    with pytest.raises(ArtifactError, match="stand for 0 nodes"):
        plgc.merge([replace(pair[0], counts=torch.zeros_like(pair[0].counts))], nodes=4, progress=False)
    with pytest.raises(SettingError, match="no condensed graph"):
        plgc.merge([], progress=False)
    with pytest.raises(SettingError, match="device 'warp'"):
        plgc.merge(pair, device="warp", progress=False)


def test_memory_is_a_limit(pair: list[plgc.CondensedGraph]) -> None:
    """Too little is refused with what would do; more rows need more, mostly for the angles between them."""
    with pytest.raises(
        SettingError, match=r"merging 2\d rows takes \d+ MiB: allow that much \(--memory (\d+)MiB\)"
    ) as no:
        plgc.merge(pair, memory="100MiB", progress=False)
    enough = str(no.value).partition("--memory ")[2].partition(")")[0]
    merged, free = (plgc.merge(pair, memory=limit, progress=False) for limit in (enough, None))
    assert torch.equal(merged.features, free.features)
    many = [replace(one, features=one.features.repeat(300, 1)) for one in pair]
    rows = sum(one.num_nodes for one in many)
    assert space_bytes(many, many[0]) - space_bytes(pair, pair[0]) > rows * rows * 4 * (len(pair[0].blocks) + 8) * 0.99
