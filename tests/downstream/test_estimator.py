"""scikit-learn's own estimator checks where they need no data, the others rewritten for graphs.

Left out, because a graph is no matrix of samples: everything that fits on arrays of other types, layouts, dtypes,
memory maps, sparse matrices or one sample or feature (``check_fit2d_*``, ``check_estimators_dtypes``,
``check_estimator_sparse_*``, ``check_f_contiguous_array_estimator``, ``check_readonly_memmap_input``,
``check_complex_data``, …); everything that takes away or reorders rows (``check_methods_subset_invariance``,
``check_methods_sample_order_invariance``: neighbours matter); sample and class weights, several outputs, decision
functions, partial fits, transformers, regressors and clusterers, none of which it has; ``check_requires_y_none``, as
the labels may be the graph's own; data frames' column names (``check_dataframe_column_names_consistency``).
"""

from __future__ import annotations

import importlib
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid
from sklearn.utils import estimator_checks
from torch_geometric.data import Data

import quick as settings
from plgc import NodeModel
from plgc.downstream.estimator import PLGCClassifier, default_nodes, node_values
from plgc.downstream.head import HeadSettings
from plgc.graphs import citation_graph, load_graph
from plgc.method import settings as config
from plgc.method.settings import CondenseSettings
from plgc.runtime.errors import GraphError, LabelError, MissingExtraError, SettingError

QUICK = settings.quick(32)


def quick(**options: Any) -> PLGCClassifier:
    return PLGCClassifier(**{"nodes": 20, "settings": QUICK, "head": HeadSettings(steps=60), "threads": 1, **options})


@pytest.fixture(scope="module")
def graph() -> Data:
    return load_graph(citation_graph(nodes=240, classes=3, features=60))


@pytest.fixture(scope="module")
def fitted(graph: Data) -> PLGCClassifier:
    """Shared by all tests, so none may change it."""
    return quick().fit(graph)


DATALESS = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
]


@pytest.mark.parametrize("name", DATALESS)
def test_scikit_learns_checks_without_data(name: str) -> None:
    getattr(estimator_checks, name)("PLGCClassifier", PLGCClassifier())


def test_it_says_what_it_is() -> None:
    assert is_classifier(PLGCClassifier())
    assert repr(PLGCClassifier(30, seed=2)) == "PLGCClassifier(nodes=30, seed=2)"
    copy = clone(quick(ratio=0.1, nodes=None))
    assert copy.get_params()["settings"] == QUICK
    assert copy.set_params(seed=3).seed == 3


def test_fit_returns_self_and_sets_what_it_should(graph: Data) -> None:
    model = quick()
    before = dict(vars(model))
    assert model.fit(graph) is model
    after = vars(model)
    assert {key: after[key] for key in before} == before  # parameters are as they were
    new = set(after) - set(before)
    assert new == {"classes_", "condensed_", "model_", "n_features_in_"}
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.n_features_in_ == 60
    assert model.condensed_.num_nodes == 20
    assert isinstance(model.model_, NodeModel)


def test_predictions_fit_each_other(graph: Data, fitted: PLGCClassifier) -> None:
    before = dict(vars(fitted))
    probability, predicted = fitted.predict_proba(graph), fitted.predict(graph)
    assert probability.shape == (240, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(predicted, fitted.classes_[probability.argmax(axis=1)])
    test = graph.test_mask.numpy()
    assert fitted.score(graph) == pytest.approx((predicted[test] == graph.y.numpy()[test]).mean())
    assert fitted.score(graph) > 0.6
    assert fitted.score(graph, mask=graph.val_mask) != fitted.score(graph, mask=torch.ones(240, dtype=torch.bool))
    assert dict(vars(fitted)) == before  # asking changes nothing


def test_fit_is_idempotent_and_starts_anew(graph: Data, fitted: PLGCClassifier) -> None:
    model = quick(seed=1).fit(graph)
    other = model.predict_proba(graph)
    again = model.set_params(seed=0).fit(graph).predict_proba(graph)
    np.testing.assert_array_equal(again, fitted.predict_proba(graph))
    assert not np.array_equal(other, again)
    np.testing.assert_array_equal(clone(fitted).fit(graph).predict_proba(graph), again)


def test_the_graph_and_the_labels_are_not_changed(graph: Data) -> None:
    given, y = graph.clone(), graph.y.numpy().copy()
    quick().fit(given, y).score(given, y)
    assert sorted(given.keys()) == sorted(graph.keys())
    for key, value in graph.to_dict().items():
        same = torch.equal(given[key].to_dense(), value.to_dense()) if torch.is_tensor(value) else given[key] == value
        assert same, key
    np.testing.assert_array_equal(y, graph.y.numpy())


def test_an_unfitted_one_says_so(graph: Data) -> None:
    for ask in ("predict", "predict_proba", "score"):
        with pytest.raises(NotFittedError):
            getattr(PLGCClassifier(), ask)(graph)


def test_it_can_be_pickled(graph: Data, fitted: PLGCClassifier) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(graph), fitted.predict_proba(graph))


def test_words_come_back_as_given(graph: Data, fitted: PLGCClassifier) -> None:
    names = np.array(["zebra", "ape", "Löwe"])
    words = names[graph.y.numpy()]
    model = quick().fit(graph, words)
    assert model.classes_.tolist() == sorted(names.tolist())
    order = [sorted(names.tolist()).index(name) for name in names]
    np.testing.assert_allclose(model.predict_proba(graph)[:, order], fitted.predict_proba(graph), atol=1e-3)
    assert set(model.predict(graph)) <= set(names)
    assert model.score(graph, list(words)) == pytest.approx(fitted.score(graph))
    named = graph.clone()
    named.class_names = names.tolist()
    assert set(quick().fit(named).predict(named)) <= set(names)
    np.testing.assert_array_equal(quick().fit(graph, 10 * graph.y).classes_, [0, 10, 20])


def test_only_labels_of_the_nodes_to_learn_from_are_read(graph: Data, fitted: PLGCClassifier) -> None:
    hidden = graph.y.clone()
    hidden[~graph.train_mask] = (hidden[~graph.train_mask] + 1) % 3
    wrong = quick().fit(graph, hidden)
    np.testing.assert_array_equal(wrong.predict_proba(graph), fitted.predict_proba(graph))
    assert wrong.condensed_.to_bytes() == fitted.condensed_.to_bytes()
    few = torch.zeros(240, dtype=torch.bool)
    few[:30] = True
    known = [int(label) if place < 30 else None for place, label in enumerate(graph.y)]
    bare = Data(x=graph.x, edge_index=graph.edge_index)
    np.testing.assert_allclose(
        quick().fit(bare, [None if label is None else str(label) for label in known]).predict_proba(bare),
        quick().fit(graph, mask=few).predict_proba(graph),
        atol=1e-5,
    )


def test_what_counts_as_a_label(graph: Data) -> None:
    bare = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1], [1, 2]]))
    for y, labelled in (
        ([0, -1, 2, 3], [True, False, True, True]),
        ([0.0, float("nan"), 1.0, -1.0], [True, False, True, False]),
        (["a", None, "", "b"], [True, False, False, True]),
        (torch.tensor([[1], [0], [1], [-1]]), [True, True, True, False]),
    ):
        assert node_values(bare, y)[1].tolist() == labelled
    with pytest.raises(LabelError, match="give y"):
        node_values(bare)
    with pytest.raises(LabelError, match=r"y has shape \[3\], the graph 4 nodes"):
        node_values(bare, [0, 1, 2])


def test_what_cannot_be_fitted_is_named(graph: Data, fitted: PLGCClassifier) -> None:
    with pytest.raises(SettingError, match="either ratio or nodes"):
        quick(ratio=0.1).fit(graph)
    with pytest.raises(SettingError, match="unknown preset"):
        quick(settings=None, preset="best").fit(graph)
    with pytest.raises(LabelError, match="none of the nodes to learn from"):
        quick().fit(graph, mask=torch.zeros(240, dtype=torch.bool))
    with pytest.raises(LabelError, match=r"the mask is int64 \[240\]"):
        quick().fit(graph, mask=graph.y)
    with pytest.raises(LabelError, match="none of the nodes to score on"):
        fitted.score(graph, mask=np.zeros(240, dtype=bool))
    with pytest.raises(GraphError, match="60 features per node, the graph has 4"):
        fitted.predict(Data(x=torch.eye(4), edge_index=torch.tensor([[0], [1]])))
    with pytest.raises(GraphError, match="cannot load a graph from a ndarray"):
        quick().fit(np.eye(4), [0, 1, 0, 1])


def test_size_by_default() -> None:
    assert [default_nodes(count) for count in (12, 50, 500, 2708, 100_000)] == [2, 10, 20, 54, 2000]
    assert config.preset(PLGCClassifier().preset) == CondenseSettings()


def test_settings_chosen_on_validation_nodes(graph: Data) -> None:
    scores = []
    for options in ParameterGrid({"kind": ["gcn", "sgc"]}):
        model = clone(quick()).set_params(**options).fit(graph)
        scores.append((model.score(graph, mask=graph.val_mask), options))
    best, chosen = max(scores, key=lambda item: item[0])
    assert best >= scores[0][0]
    assert quick(**chosen).fit(graph).score(graph) > 0.5


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "plgc.downstream.estimator")
    with pytest.raises(MissingExtraError, match=r"PLGCClassifier needs scikit-learn: pip install 'plgc\[sklearn\]'"):
        importlib.import_module("plgc.downstream.estimator")


def test_every_label_of_a_graph_without_a_split_is_used(graph: Data) -> None:
    y = torch.where(torch.arange(240) < 30, graph.y, -1)
    bare = Data(x=graph.x, edge_index=graph.edge_index, y=y)
    fitted = quick().fit(bare)
    assert fitted.model_.learned_from == "all 30 labels, 3 classes"
    loaded = quick().fit(load_graph(bare))  # with the masks that loading has generated
    np.testing.assert_array_equal(loaded.predict_proba(bare), fitted.predict_proba(bare))


def test_labels_of_one_class_are_refused(graph: Data) -> None:
    with pytest.raises(LabelError, match=r"all 240 labels to learn from are of one class \(ape\)"):
        quick().fit(graph, ["ape"] * 240, mask=torch.ones(240, dtype=torch.bool))
