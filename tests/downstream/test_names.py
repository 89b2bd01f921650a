"""What a model remembers in words: kept in its file, checked when it is opened, compared with every graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream import names as names_module
from plgc.downstream.names import Names
from plgc.graphs import citation_graph
from plgc.runtime.errors import ArtifactError, GraphError
from quick import quick

CLASSES, WIDTH = ["ape", "bee", "cat"], 60
FEATURES = [f"f{i}" for i in range(WIDTH)]


def named(**changes: Any) -> Data:
    graph = citation_graph(nodes=200, classes=3, features=WIDTH)
    graph.class_names, graph.feature_names = CLASSES, FEATURES
    for key, value in changes.items():
        graph[key] = value
    return graph


def rebuilt(graph: Data) -> plgc.Backbone:
    return plgc.reconstruct(plgc.condense(graph, nodes=8, settings=quick(16)))


@pytest.fixture(scope="module")
def backbone() -> plgc.Backbone:
    return rebuilt(named())


@pytest.fixture(scope="module")
def model(backbone: plgc.Backbone) -> plgc.NodeModel:
    return plgc.finetune(backbone, named(), shots=3)


def test_names_survive_the_file(model: plgc.NodeModel, tmp_path: Path) -> None:
    found = plgc.load_model(model.save(tmp_path / "model.safetensors"))
    assert found.names == Names(tuple(CLASSES), tuple(FEATURES))
    nameless = replace(model, names=Names())
    assert plgc.load_model(nameless.save(tmp_path / "nameless.safetensors")).names == Names()


def test_a_link_model_knows_its_features_alone(backbone: plgc.Backbone, tmp_path: Path) -> None:
    model = plgc.finetune(backbone, named(), task="link")
    assert plgc.load_model(model.save(tmp_path / "links.safetensors")).names == Names(features=tuple(FEATURES))
    with pytest.raises(GraphError, match="column 1 is 'f1'"):
        model.predict_proba(named(feature_names=[FEATURES[1], FEATURES[0], *FEATURES[2:]]), torch.tensor([[0], [1]]))


def test_other_columns_are_refused(model: plgc.NodeModel) -> None:
    swapped = [*FEATURES[:5], FEATURES[6], FEATURES[5], *FEATURES[7:]]
    with pytest.raises(GraphError, match="column 6 is 'f6', the model has 'f5' there"):
        model.predict(named(feature_names=swapped))
    with pytest.raises(GraphError, match="there are 59, not 60, and 'f59' is not among them"):
        model.predict(named(feature_names=FEATURES[:-1]))
    with pytest.raises(GraphError, match=r"no features, .* \(first 'f0', 'f1', 'f2', 'f3'\): give an edge list its"):
        model.predict(named(x=None))
    nameless = named()
    del nameless.feature_names
    assert torch.equal(model.predict(nameless), model.predict(named()))  # nothing is known against it


def test_other_classes_are_not_scored(model: plgc.NodeModel) -> None:
    with pytest.raises(GraphError, match="classes are bee, ape, cat, the model's ape, bee, cat"):
        model.evaluate(named(class_names=["bee", "ape", "cat"]))
    assert model.evaluate(named(class_names=[*CLASSES, "dog"]))["accuracy"] > 0  # as many as were learned, then more


def test_derived_features_are_compared(model: plgc.NodeModel) -> None:
    graph = plgc.load_graph(citation_graph(nodes=200, classes=3, features=9), features=f"fastrp:{WIDTH}")
    with pytest.raises(GraphError, match="leave --features fastrp:60 out"):
        model.predict(graph)
    derived = plgc.finetune(rebuilt(graph), graph, shots=3)
    assert derived.names.derived == {"features": "fastrp:60", "seed": 0}
    assert len(derived.predict(graph)) == 200
    with pytest.raises(GraphError, match="has its own: give it --features fastrp:60 "):
        derived.predict(named())


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"classes": ["a", "b"]}, "2 names for 3 classes"),
        ({"classes": "abc"}, "names.classes is 'abc': a list is needed"),
        ({"features": [1] * WIDTH}, r"names.features\[0\] is 1: a text is needed"),
        ({"features": ["x"]}, "1 names for 60 features"),
        ({"derived": {"features": "word2vec:3", "seed": 0}}, "word2vec"),
        ({"derived": {"features": "fastrp:64", "seed": "0"}}, "fastrp:64"),
        ({"derived": [1]}, "names.derived is"),
        (7, "damaged"),
    ],
)
def test_names_that_make_no_sense_are_refused(
    model: plgc.NodeModel, names: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Names, "to_header", lambda _: names)
    path = model.save(tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match=words):
        plgc.load_model(path)


def test_endless_names_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "MAX_LENGTH", 100)
    assert Names.of(named(), 3) == Names(classes=tuple(CLASSES))


def test_an_estimator_compares_them_too() -> None:
    pytest.importorskip("sklearn")
    from plgc.downstream.estimator import PLGCClassifier

    graph = plgc.load_graph(citation_graph(nodes=150, classes=3, features=9), features="fastrp:16")
    fitted = PLGCClassifier(nodes=6, settings=quick(16)).fit(graph)
    assert len(fitted.predict(graph)) == 150
    with pytest.raises(GraphError, match="give it --features fastrp:16 "):
        fitted.predict(plgc.load_graph(citation_graph(nodes=150, classes=3, features=16)))
