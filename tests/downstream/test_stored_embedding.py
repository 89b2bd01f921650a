"""Embeddings and heads of graphs on disk are those in memory up to rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import Backbone, BackboneSettings, Outputs
from plgc.downstream.fitting import fit_head
from plgc.downstream.tasks.node import fit_head_on
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.scratch import scratch
from plgc.sparse.stored_inputs import StoredGraphs, StoredInputs

SMALL = {"block_bytes": 1 << 16, "slice_bytes": 1 << 12}  # many blocks and slices, also of small graphs


@pytest.fixture(scope="module")
def dense_graph() -> Data:
    """A graph with dense features, weights, isolated nodes and a hub."""
    rng, nodes = np.random.default_rng(0), 400
    y = rng.integers(0, 4, nodes)
    pairs = rng.integers(0, nodes - 10, (2, 3000))
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (rng.random(3000) < 0.2)]
    pairs = np.concatenate([pairs, np.stack([np.full(300, 5), np.arange(300)])], 1)
    x = rng.standard_normal((nodes, 20)) + 0.7 * np.eye(4)[y] @ rng.standard_normal((4, 20))
    graph = Data(
        x=torch.tensor(x, dtype=torch.float32),
        edge_index=torch.from_numpy(pairs),
        edge_weight=torch.from_numpy(rng.random(pairs.shape[1]).astype(np.float32)),
        y=torch.from_numpy(y),
        num_nodes=nodes,
    )
    return plgc.load_graph(graph, notice=False)


def columns(stored, nodes):
    """A stored embedding as one matrix."""
    return torch.cat([rows.take(torch.arange(nodes)) for rows in stored.parts.values()], 1)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "sgc", "mlp"])
@pytest.mark.parametrize("layers", [1, 3])
def test_every_kind_of_network_embeds_as_in_memory(dense_graph: Data, tmp_path: Path, kind: str, layers: int) -> None:
    for hidden, edges in ((7, (6, 5)), (48, (40,))):  # narrower and wider than X
        settings = BackboneSettings(kind=kind, hidden=hidden, layers=layers)
        backbone = Backbone(settings, 20, Outputs(edges=edges, plain=(9,)), "none", 3).eval()
        wanted = backbone.embed(dense_graph)
        with scratch(tmp_path) as room:
            for half, exact in ((1 << 40, 2e-5), (0, 2e-3)):
                inputs = backbone.prepare(dense_graph, StoredGraphs(room, **SMALL, half_from=half))
                assert isinstance(inputs, StoredInputs)
                stored = backbone.embed_stored(inputs)
                found = columns(stored, 400)
                blocks = torch.cat([torch.cat(list(parts.values()), 1) for *_, parts in stored.blocks("")])
                torch.testing.assert_close(blocks, found, atol=1e-6, rtol=1e-5)
                torch.testing.assert_close(found, wanted, atol=exact * float(wanted.abs().max()), rtol=exact)
                torch.testing.assert_close(
                    stored.mean, wanted.mean(0), atol=exact * float(wanted.abs().max()), rtol=1e-2
                )


def test_attention_is_refused_by_name(dense_graph: Data, tmp_path: Path) -> None:
    backbone = Backbone(BackboneSettings(kind="gat"), 20, Outputs(edges=(8,)), "none", 0)
    with scratch(tmp_path) as room:
        inputs = backbone.prepare(dense_graph, StoredGraphs(room))
        with pytest.raises(SettingError, match="choose one of gcn, sage, gin, sgc, mlp"):
            backbone.embed_stored(inputs)


@pytest.mark.parametrize("edges", [True, False], ids=["with edges", "without"])
@pytest.mark.parametrize("labels", ["few", "many", "validated"])
@pytest.mark.parametrize("parts", ["shipped", "learned", "x"])
def test_heads_answer_as_in_memory(
    backbone: plgc.Backbone, demo_graph: Data, tmp_path: Path, labels: str, parts: str, edges: bool
) -> None:
    y = demo_graph.y
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))
    labelled = order[: {"few": 21, "many": 600, "validated": 300}[labels]].sort().values
    validation = order[300:500] if labels == "validated" else None
    names = {"shipped": list(backbone.parts), "learned": ["learned"], "x": ["x"]}[parts]
    own = {name: backbone.parts[name] for name in names}
    inputs = backbone.prepare(demo_graph)
    pieces = dict(zip(backbone.parts, backbone.embed(inputs).split(list(backbone.parts.values()), 1), strict=True))
    embedding, classes = torch.cat([pieces[name] for name in names], 1), int(y.max()) + 1
    x = None if "x" in names else pieces["x"]
    adjacency = inputs.adjacency if edges else None
    wanted = fit_head(embedding, own, labelled, y, classes, adjacency=adjacency, x=x, validation=validation)
    with scratch(tmp_path) as room:
        stored = backbone.prepare(demo_graph, StoredGraphs(room, block_bytes=1 << 22, slice_bytes=1 << 19))
        there = backbone.embed_stored(stored).only(own)
        beside = None if "x" in names else backbone.embed_stored(stored).only({"x": 0})
        near = stored.adjacency if edges else None
        found = fit_head(there, own, labelled, y, classes, adjacency=near, x=beside, validation=validation)
        probability = found.probabilities(there, near)
    assert found.settled.keys() == wanted.settled.keys()
    for name, value in wanted.settled.items():
        assert found.settled[name] == pytest.approx(value, abs=2e-3)
    torch.testing.assert_close(probability, wanted.probabilities(embedding, adjacency), atol=2e-3, rtol=1e-2)


def test_a_head_of_one_part_looks_at_x_beside_it(backbone: plgc.Backbone, demo_graph: Data, tmp_path: Path) -> None:
    inputs, labelled = backbone.prepare(demo_graph), torch.arange(0, 600, 30)
    part = {"learned": backbone.parts["learned"]}
    embedding = backbone.embed(inputs)[:, : part["learned"]]
    wanted = fit_head_on(embedding, part, inputs, demo_graph, labelled, False)
    with scratch(tmp_path) as room:
        stored = backbone.prepare(demo_graph, StoredGraphs(room))
        there = backbone.embed_stored(stored).only(part)
        found = fit_head_on(there, part, stored, demo_graph, labelled, False)
    assert found.settled["edge_agreement"] == pytest.approx(wanted.settled["edge_agreement"], abs=1e-4)


def test_scratch_files_go_with_the_last_use(backbone: plgc.Backbone, demo_graph: Data, tmp_path: Path) -> None:
    before = len(mapped._mappings)
    with scratch(tmp_path) as room:
        prepared = StoredGraphs(room)
        inputs = backbone.prepare(demo_graph, prepared)
        embedding = backbone.embed_stored(inputs)
        assert torch.equal(embedding.mean, backbone.embed_stored(inputs).mean)
        assert len(mapped._mappings) > before
    del prepared, inputs, embedding
    assert len(mapped._mappings) == before  # also without a search for cycles
