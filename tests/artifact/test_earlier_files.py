"""Files that earlier versions wrote, one of every schema, still open: the files themselves, not our idea of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import plgc
from plgc.artifact.condensed import SCHEMA
from plgc.downstream.model_file import SCHEMA as MODEL_SCHEMA
from plgc.graphs import citation_graph

EARLIER = Path(__file__).parent / "earlier"  # of 80 nodes with 20 features, in 3 classes; the number is the schema


def test_every_schema_has_a_file() -> None:
    """Whoever raises a schema adds a file of the one before."""
    names = {path.stem for path in EARLIER.iterdir()}
    assert {f"condensed-{schema}" for schema in range(1, SCHEMA + 1)} <= names
    assert {f"{kind}-{schema}" for kind in ("node", "link") for schema in range(1, MODEL_SCHEMA + 1)} <= names


@pytest.mark.parametrize("name", [*(f"condensed-{schema}" for schema in range(1, SCHEMA + 1)), "noisy-3"])
def test_condensed_graphs_are_learned_from(name: str, tmp_path: Path) -> None:
    condensed = plgc.CondensedGraph.load(EARLIER / f"{name}.safetensors")
    assert condensed.num_features == 20
    assert condensed.channels[0] == "edges"
    assert ("plain" in condensed.channels) == (int(name[-1]) >= 4)
    assert (condensed.seen.preprocessing is not None) == (int(name[-1]) >= 5)
    again = plgc.CondensedGraph.load(condensed.save(tmp_path / "again"))  # in today's schema
    assert torch.equal(again.features, condensed.features)
    assert plgc.reconstruct(again).losses[-1] > 0


def test_labels_and_edges() -> None:
    condensed = plgc.CondensedGraph.load(EARLIER / "labels-2.safetensors")
    assert (condensed.method, condensed.num_classes) == ("coarsening", 3)
    assert condensed.edge_index is not None


@pytest.mark.parametrize("schema", range(1, MODEL_SCHEMA + 1))
def test_models_predict(schema: int) -> None:
    graph = plgc.load_graph(citation_graph(nodes=80, classes=3, features=20))
    nodes, links = (plgc.load_model(EARLIER / f"{kind}-{schema}.safetensors") for kind in ("node", "link"))
    assert isinstance(nodes, plgc.NodeModel)
    assert isinstance(links, plgc.LinkModel)
    probability = nodes.predict_proba(graph)
    assert probability.shape == (80, 3)
    assert torch.allclose(probability.sum(1), torch.ones(80), atol=1e-5)
    assert nodes.evaluate(graph)["accuracy"] > 40  # a third by chance
    joined = links.predict_proba(graph, torch.tensor([[0, 1, 2], [3, 4, 5]]))
    assert bool(((joined > 0) & (joined < 1)).all())
