"""Update: the condensed graph of a graph that has grown, from that of the graph before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import training_edges, unlabelled
from plgc.graphs.views.inductive import induced_subgraph
from plgc.method import alternate, warm
from plgc.method.settings import CondenseSettings, preset
from plgc.runtime import checkpoint
from plgc.runtime.errors import ArtifactError, GraphError, PLGCError, SettingError
from quick import PLAIN, quick

SMALL = quick(24, hidden=24, rounds=2, epochs=10, plain=PLAIN)
NEW = torch.arange(600) >= 480


@pytest.fixture(scope="module")
def before(demo_graph: Data) -> plgc.CondensedGraph:
    """Of the first 480 nodes."""
    return plgc.condense(induced_subgraph(demo_graph, ~NEW), nodes=16, seed=3, settings=SMALL)


@pytest.fixture(scope="module")
def part(demo_graph: Data) -> Data:
    """The other 120 nodes, with their neighbours as a halo."""
    source, target = demo_graph.edge_index
    around = NEW.clone()
    around[source[NEW[target]]] = True
    cut = induced_subgraph(demo_graph, around)
    cut.core_mask = NEW[around]
    return cut


def test_it_grows_with_the_graph(before: plgc.CondensedGraph, demo_graph: Data, tmp_path: Path) -> None:
    after = plgc.update(before, demo_graph)
    assert (after.num_nodes, after.seed, after.source["nodes"]) == (20, 3, 600)
    assert int(after.counts.sum()) == 600
    assert after.settings == before.settings
    parent = after.ancestry[0].parents[0]
    assert (after.ancestry[0].how, parent.rows, parent.nodes) == ("update", 16, 480)
    assert parent.checksum == before.as_parent().checksum
    assert len(after.curves["pseudo_label_loss"]) == warm.EPOCHS < 20
    assert 0 < after.chosen["kept"] <= 1
    opened = plgc.CondensedGraph.load(after.save(tmp_path / "after.safetensors"))
    assert plgc.update(before, demo_graph).to_bytes() == after.to_bytes() == opened.to_bytes()
    assert [step.how for step in plgc.update(opened, demo_graph, nodes=9).ancestry] == ["update", "update"]


def test_it_starts_from_what_the_file_knows(demo_graph: Data) -> None:
    known = plgc.condense(demo_graph, nodes=20, settings=quick(24, hidden=24, rounds=6, epochs=10, plain=PLAIN))
    after = plgc.update(known, demo_graph)
    first, last = known.curves["pseudo_label_loss"][0], known.curves["pseudo_label_loss"][-1]
    assert after.curves["pseudo_label_loss"][0] < first + 0.4 * (last - first)
    noise = torch.rand(known.features.shape, generator=torch.Generator().manual_seed(0))
    without = plgc.update(replace(known, features=noise), demo_graph)
    assert without.chosen["kept"] < after.chosen["kept"] - 0.1


@pytest.mark.parametrize("only_new", [False, True])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_labels_cannot_reach_the_artifact(
    before: plgc.CondensedGraph, demo_graph: Data, part: Data, how: str, only_new: bool
) -> None:
    graph = part if only_new else demo_graph
    changed = unlabelled(graph) if how == "removed" else graph.clone()
    if how == "replaced":
        changed.y, changed.train_mask = torch.zeros_like(graph.y), torch.ones_like(graph.train_mask)
    made = [plgc.update(before, shown, only_new=only_new).to_bytes() for shown in (graph, changed)]
    assert made[0] == made[1]


def test_new_columns_count_as_unseen(before: plgc.CondensedGraph, demo_graph: Data) -> None:
    wider = demo_graph.clone()
    more = torch.rand(600, 3, generator=torch.Generator().manual_seed(0)) * NEW[:, None]
    wider.x = torch.cat([demo_graph.x.to_dense(), more], dim=1)
    after = plgc.update(before, wider)
    assert after.num_features == before.num_features + 3
    assert float(after.features[:, -3:].sum()) > 0


def test_the_old_file_stands_in_for_nodes_that_are_gone(
    before: plgc.CondensedGraph, demo_graph: Data, part: Data
) -> None:
    after = plgc.update(before, part, only_new=True)
    assert int(after.counts.sum()) == after.source["nodes"] == 600
    assert after.source["edges"] == demo_graph.edge_index.shape[1]
    assert (after.num_nodes, after.fingerprint, after.ancestry[0].how) == (20, None, "update-only-new")
    alone = plgc.condense(part, nodes=20, seed=3, settings=SMALL)
    nearest = [torch.cdist(before.features, made.features).amin(1).mean() for made in (after, alone)]
    assert nearest[0] < 0.8 * nearest[1]


def test_only_new_of_a_large_part_is_read_from_a_sample(
    before: plgc.CondensedGraph, part: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plgc.method.batches.SAMPLE", 50)
    after = plgc.update(before, part, only_new=True)
    assert int(after.counts.sum()) == 600


def test_only_new_in_batches(before: plgc.CondensedGraph, part: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.method.batches.WHOLE", 100)
    after = plgc.update(before, part, only_new=True, memory="4GiB")
    assert after.chosen["batch_nodes"] > 0
    assert int(after.counts.sum()) == 600


def test_old_rows_dominate_no_value_of_a_joint_one(demo_graph: Data, part: Data) -> None:
    settings = replace(SMALL, max_share=0.3, min_cluster=5)
    known = plgc.condense(induced_subgraph(demo_graph, ~NEW), nodes=16, settings=settings)
    after = plgc.update(known, part, only_new=True)
    kept = [float((made.features != 0).float().mean()) for made in (known, after)]
    assert kept[1] > 0.5 * kept[0]
    assert int(after.counts.min()) >= 5


def test_the_paper_preset_is_updated_too(demo_graph: Data) -> None:
    values = preset("paper").to_dict()
    values["encoders"][0].update(hidden=24, width=16)
    known = plgc.condense(demo_graph, nodes=12, settings=CondenseSettings.from_dict(values))
    after = plgc.update(known, demo_graph)
    assert after.chosen["kept"] > 0.5
    assert len(after.curves["synthesis_loss"]) == 20


@pytest.mark.parametrize("only_new", [False, True])
def test_a_stopped_run_ends_with_the_same_bytes(
    before: plgc.CondensedGraph,
    demo_graph: Data,
    part: Data,
    only_new: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, real, done = part if only_new else demo_graph, alternate.train_epoch, list[int]()
    expected = plgc.update(before, graph, only_new=only_new).to_bytes()

    def train(*arguments: Any) -> float:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(0)
        return real(*arguments)

    monkeypatch.setattr(checkpoint, "SHARE", 0)
    monkeypatch.setattr(alternate, "train_epoch", train)
    with pytest.raises(KeyboardInterrupt):
        plgc.update(before, graph, only_new=only_new, checkpoint=tmp_path)
    monkeypatch.setattr(alternate, "train_epoch", real)
    assert len(list(tmp_path.iterdir())) == 1
    told = list[str]()
    after = plgc.update(
        before, graph, only_new=only_new, checkpoint=tmp_path, progress=lambda *event: told.append(event[0])
    )
    assert told[0].startswith("resuming after epoch 3")
    assert after.to_bytes() == expected
    assert not list(tmp_path.iterdir())


def narrower(graph: Data) -> Data:
    return Data(x=graph.x.to_dense()[:, :-1], edge_index=graph.edge_index)


def with_signs(graph: Data) -> Data:
    return Data(x=graph.x.to_dense() - 0.5, edge_index=graph.edge_index)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (narrower, GraphError, "199 features per node, the condensed graph 200"),
        (with_signs, GraphError, "'none', those of the condensed graph were by 'l1'"),
        (lambda graph: training_edges(graph, 0), ArtifactError, "training edges alone"),
    ],
)
def test_other_features_are_refused(
    before: plgc.CondensedGraph, demo_graph: Data, change: Callable[[Data], Data], error: type[PLGCError], message: str
) -> None:
    with pytest.raises(error, match=message):
        plgc.update(before, change(demo_graph))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "gcond"}, "made by gcond"),
        ({"settings": {"ladder": 3}}, r"does not have \(settings\.'ladder' is unknown"),
        ({"settings": {**SMALL.to_dict(), "clip": 1.0, "noise": 0.1}}, "give clip and noise again"),
        ({"blocks": (20, 16)}, "its settings say"),
        ({"counts": torch.zeros(16, dtype=torch.int64)}, "stands for no node"),
        ({"settings": {**SMALL.to_dict(), "pseudo_labels": {"refinements": 10**9}}}, "1,000,000,000 refinements"),
    ],
)
def test_files_that_cannot_be_updated(
    before: plgc.CondensedGraph, demo_graph: Data, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArtifactError, match=message):
        plgc.update(replace(before, **changes), demo_graph)


def test_a_smaller_share_than_the_old_files_is_not_promised(before: plgc.CondensedGraph, part: Data) -> None:
    with pytest.raises(SettingError, match=r"max_share is 0\.2, but rows of the old file"):
        plgc.update(before, part, only_new=True, max_share=0.2)
