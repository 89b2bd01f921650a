from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation import audit
from plgc.evaluation.audits import advice, graded
from plgc.graphs import citation_graph, training_edges, training_subgraph
from plgc.method.release import privatise
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from quick import quick

QUICK = quick(16, hidden=24, rounds=1, epochs=3)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=120, classes=3, features=200)


@pytest.fixture(scope="module")
def condensed(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=6, settings=QUICK)


def test_a_default_file_is_exposed(graph: Data, condensed: plgc.CondensedGraph) -> None:
    calls: list[tuple[int, int]] = []
    found = audit(condensed, graph, seeds=2, progress=lambda _, done, total: calls.append((done, total)))
    assert found["grade"] == "exposed"
    assert found["auc"]["mean"] > 0.9
    assert found["auc"]["interval"][0] <= found["auc"]["mean"] <= found["auc"]["interval"][1]
    assert len(found["auc"]["values"]) == len(found["tpr"]["values"]) == found["seeds"] == 2
    assert found["attacked"] == "halves"
    assert (found["members"], found["others"]) == (60, 60)
    assert "likelihood_ratio" not in found["attacks"]  # members are found without shadows
    assert "AUC" in found["reasons"][0]
    assert any("--no-fingerprint" in text for text in found["advice"])
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] <= calls[-1][1]


def test_counts_are_those_of_the_file(graph: Data) -> None:
    features = graph.x.to_dense().clone()
    features[:, 0] = 0
    features[7, 0] = 1.0  # a word of one node alone
    alone = Data(x=features, edge_index=graph.edge_index)
    file = plgc.condense(alone, nodes=6, settings=QUICK, fingerprint=False)
    rows = file.features.clone()
    rows[2] = 3 * features[5]
    counts = file.counts.clone()
    counts[1] = 1
    told = audit(replace(file, features=rows, counts=counts), alone, seeds=1, shadows=0)["file"]
    users = (features != 0).sum(0)
    assert told["exact_rows"] == 1
    assert told["words"] == int((rows != 0).any(0).sum())
    assert told["words_of_one"] == int(((users == 1) & (rows != 0).any(0)).sum()) >= 1
    assert told["counts_of_one"] >= 1
    assert not told["fingerprint"]


def test_outsiders_attack_the_file_itself(graph: Data, condensed: plgc.CondensedGraph) -> None:
    others = citation_graph(nodes=90, classes=3, features=200, seed=5)
    found = audit(condensed, graph, outsiders=others, shadows=0)
    assert (found["attacked"], found["seeds"], found["members"], found["others"]) == ("file", 1, 120, 90)
    assert found["auc"]["mean"] > 0.9
    narrow = citation_graph(nodes=90, classes=3, features=50)
    with pytest.raises(GraphError, match="has 50: both need the same features"):
        audit(condensed, graph, outsiders=narrow)


def test_halves_are_made_as_the_file_was(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[plgc.CondensedGraph] = []

    def spy(*arguments: Any, **options: Any) -> plgc.CondensedGraph:
        made.append(plgc.condense(*arguments, **options))
        return made[-1]

    monkeypatch.setattr("plgc.evaluation.audits.condense", spy)
    file = plgc.condense(graph, nodes=20, settings=QUICK, min_cluster=5, max_share=0.5)
    noisy = privatise(file, clip=0.1, noise=0.5, seed=0)
    found = audit(noisy, graph, seeds=1, shadows=1)
    assert len(made) == 2  # one half and one shadow: noise hides the members from the attacks without
    for half in made:
        assert half.settings == file.settings
        assert half.nodes_requested == 12  # 60 nodes, at least five each
        assert half.source["nodes"] == 60
    assert found["auc"]["mean"] < 0.9
    assert "likelihood_ratio" in found["attacks"]


def test_a_file_of_a_part_is_compared_with_that_part(graph: Data) -> None:
    for part in (training_edges(graph, 3), training_subgraph(graph)):
        file = plgc.condense(part, nodes=4, settings=QUICK)
        if part.num_nodes and part.num_nodes >= 40:
            assert audit(file, graph, seeds=1, shadows=0)["members"] == part.num_nodes // 2
        else:
            with pytest.raises(GraphError, match="at least 40"):
                audit(file, graph, seeds=1, shadows=0)


def test_what_cannot_be_audited_is_refused_by_name(graph: Data, condensed: plgc.CondensedGraph) -> None:
    wide = citation_graph(nodes=120, classes=3, features=80)
    other = citation_graph(nodes=120, classes=3, features=200, seed=3)
    cut = Data(x=graph.x, edge_index=graph.edge_index[:, (graph.edge_index < 60).all(0)])
    for wrong, words in ((wide, "200 features"), (other, "fingerprint|edges"), (cut, "edges")):
        with pytest.raises(GraphError, match=words):
            audit(condensed, wrong)
    relabelled = replace(condensed, source={**condensed.source, "edges": other.num_edges})
    with pytest.raises(GraphError, match="fingerprint"):
        audit(relabelled, other)
    with pytest.raises(ArtifactError, match="made by ctgc"):
        audit(replace(condensed, method="ctgc"), graph)
    with pytest.raises(ArtifactError, match="encoders, pseudo_labels, synthesis"):
        audit(replace(condensed, settings={}), graph)
    for damaged in ({"encoders": 3}, {"pseudo_labels": {"rounds": "many"}}, {"synthesis": None}):
        with pytest.raises(plgc.PLGCError):
            audit(replace(condensed, settings={**condensed.settings, **damaged}), graph)
    with pytest.raises(ArtifactError, match="halo of 9 nodes"):
        audit(replace(condensed, source={**condensed.source, "halo": 9}), graph)
    with pytest.raises(SettingError, match="seeds is 0"):
        audit(condensed, graph, seeds=0)


def measured(auc: float, tpr: float, high: float = 0.0, **told: Any) -> dict[str, Any]:
    clean = {"exact_rows": 0, "words_of_one": 0, "counts_of_one": 0, "fingerprint": False}
    return {
        "auc": {"mean": auc, "interval": [auc, high or auc]},
        "tpr": {"mean": tpr, "interval": [tpr, tpr]},
        "file": clean | told,
    }


@pytest.mark.parametrize(
    ("result", "grade", "reasons"),
    [
        (measured(0.55, 0.02), "withstands", 0),
        (measured(0.59, 0.02, high=0.62), "withstands", 1),
        (measured(0.65, 0.02), "reduced", 1),
        (measured(0.55, 0.05), "reduced", 1),
        (measured(0.55, 0.02, words_of_one=3), "reduced", 1),
        (measured(0.55, 0.02, exact_rows=1), "exposed", 1),
        (measured(0.80, 0.02), "exposed", 1),
        (measured(0.70, 0.30), "exposed", 1),
    ],
)
def test_grades(result: dict[str, Any], grade: str, reasons: int) -> None:
    assert graded(result)[0] == grade
    assert len(graded(result)[1]) == reasons
    assert bool(advice(grade, result["file"])) == (grade != "withstands")
    assert advice("exposed", result["file"])[0].startswith("--private")
    assert "--private" not in advice("exposed", result["file"], private=True)[0]


def test_the_audit_is_the_same_each_time(graph: Data, condensed: plgc.CondensedGraph) -> None:
    state = torch.get_rng_state()
    assert audit(condensed, graph, seeds=1) == audit(condensed, graph, seeds=1)
    assert torch.equal(torch.get_rng_state(), state)
