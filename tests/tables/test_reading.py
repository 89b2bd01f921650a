"""Tables as users have them: how columns become features is learned once, and holds for every later table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import TableColumns, load_graph, save_npz, training_edges, training_labels
from plgc.graphs.attributes import Seen
from plgc.graphs.formats.tables import describe_tables
from plgc.graphs.load import ClassLikeWarning
from plgc.graphs.preprocessing import Preprocessing, read_preprocessing, save_preprocessing
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.options import Compute
from quick import quick
from tables.generators import CASES, Case

EARLIER = Path(__file__).parents[1] / "artifact" / "earlier"


def columns(case: Case, **more: Any) -> TableColumns:
    return TableColumns(**{"node_id" if role == "id" else role: name for role, name in case.columns.items()}, **more)


def months(case: Case, folder: Path) -> tuple[Data, Data]:
    """January, and February as January's description reads it."""
    files = case.write(folder)
    january = load_graph(files["january_edges"], nodes_table=files["january"], columns=columns(case))
    later = TableColumns(preprocessing=january.seen.preprocessing)
    return january, load_graph(files["february_edges"], nodes_table=files["february"], columns=later)


def table(folder: Path, text: str, **chosen: Any) -> Data:
    """A small graph whose nodes are the rows of a table, ids in the column k."""
    path, edges = folder / "nodes.csv", folder / "edges.csv"
    path.write_text(text, encoding="utf-8")
    edges.write_text("source,target\na,b\n", encoding="utf-8")
    return load_graph(edges, nodes_table=path, columns=TableColumns(node_id="k", **chosen))


@pytest.mark.parametrize("name", CASES)
def test_both_months_have_the_truth_in_the_same_columns(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    january, february = months(case, tmp_path)
    assert february.feature_names == january.feature_names
    for data, month in ((january, case.january), (february, case.february)):
        x, clean = data.x.to_dense().numpy(), np.concatenate(month.clean_columns, axis=1)
        assert np.isfinite(x).all()
        assert np.abs(x).max() <= 3
        assert data.node_ids == month.ids
        for place in range(clean.shape[1]):  # a column for each signal, in the same order of nodes
            if clean[:, place].std() > 0 and name != "rare":
                ranks = [abs(_rank_correlation(column, clean[:, place])) for column in x.T]
                assert max(ranks) > 0.8
    assert february.y.tolist() == [
        january.class_names.index(word) for word in case.february.nodes[case.columns["label"]]
    ]


def _rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    from scipy.stats import rankdata

    one, other = rankdata(one), rankdata(other)
    return 0.0 if one.std() == 0 or other.std() == 0 else float(np.corrcoef(one, other)[0, 1])


def test_a_later_table_is_scaled_by_the_numbers_of_the_first(tmp_path: Path) -> None:
    case = CASES["sensors"]()
    january, february = months(case, tmp_path)  # its columns are in another order
    for place, name in enumerate(january.feature_names[:2]):
        first, later = (np.array(month.nodes[name], dtype=float) for month in (case.january, case.february))
        lower, centre, upper = np.percentile(first, (25, 50, 75))
        wanted = np.clip((later - centre) / ((upper - lower) / 1.349), -3, 3)
        np.testing.assert_allclose(february.x[:, place], wanted, atol=2e-3)


def test_what_next_month_lacks_or_adds_is_filled_ignored_and_announced(tmp_path: Path) -> None:
    january, february = months(CASES["constant"](), tmp_path)
    said = "\n".join(february.notes)
    assert "'weather' missing or empty: filled" in said
    assert "'version', 'country', 'colour' ignored" in said
    assert february.x[:, january.feature_names.index("weather")].unique().numel() == 1
    _, february = months(CASES["customers"](), tmp_path)
    assert "'city' has 'Wien', which has no column: counted as unknown" in "\n".join(february.notes)
    towns = [place for place, name in enumerate(february.feature_names) if name.startswith("city=")]
    assert february.x[:5, towns].abs().sum() == 0
    assert february.x[5:, towns].sum(1).tolist() == [1] * 495


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("k,size,day,flag\na,tall,2026-01-01,yes\nb,short,2026-01-02,no\n", "'size' holds words such as 'tall'"),
        ("k,size,day,flag\na,1,7,yes\nb,2,8,no\n", "'day' holds numbers, and was a column of kind date"),
        ("k,size,day,flag\na,2026-01-01,2026-01-01,yes\nb,,,no\n", "'size' holds dates"),
        ("k,size,day,flag\na,inf,2026-01-01,yes\nb,2,2026-01-01,no\n", "'size' holds an infinite value"),
        ("k,size,day,flag\na,1,2026-01-01,maybe\nb,2,2026-01-01,no\n", "'flag' holds words such as 'maybe'"),
        ("k,other\na,1\nb,2\n", "none of the columns that were described"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, rows: str, message: str) -> None:
    first = table(tmp_path, "k,size,day,flag\na,1,2026-01-01,yes\nb,2,2026-02-01,no\n")
    assert first.feature_names == ["size", "day", "flag"]
    with pytest.raises(GraphError, match=message):
        table(tmp_path, rows, preprocessing=first.seen.preprocessing)


def test_a_feature_of_the_first_table_is_no_label_of_a_later_one(tmp_path: Path) -> None:
    text = "k,size,category\na,1,x\nb,2,y\nc,3,x\nd,4,y\n"
    first = table(tmp_path, text, features=["size", "category"])
    later = table(tmp_path, text, preprocessing=first.seen.preprocessing)
    assert later.feature_names == ["size", "category=x", "category=y"]
    assert "y" not in later


# Numbers as people write them


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1.234,50", "3,5"], [1234.5, 3.5]),
        (["1,234.50", "3.5"], [1234.5, 3.5]),
        (["1.234.567", "12"], [1234567, 12]),
        (["1 234,5", "-7"], [1234.5, -7]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1'234.5", "2"], [1234.5, 2]),
        (["1.234", "2.5"], [1.234, 2.5]),
    ],
)
def test_numbers_of_other_countries(tmp_path: Path, cells: list[str], wanted: list[float]) -> None:
    data = table(tmp_path, f"k;v\na;{cells[0]}\nb;{cells[1]}\n", scale=False)
    assert data.x.flatten().tolist() == pytest.approx(wanted)
    pandas = pytest.importorskip("pandas")
    frames = pandas.DataFrame({"source": ["a"], "target": ["b"]}), pandas.DataFrame({"k": ["a", "b"], "v": cells})
    found = load_graph(frames[0], nodes_table=frames[1], columns=TableColumns(node_id="k", scale=False))
    if cells != ["1.234", "2.5"]:  # plain numbers that are declared as text stay words
        assert found.x.flatten().tolist() == pytest.approx(wanted)


def test_what_may_be_two_numbers_is_refused_unless_something_tells(tmp_path: Path) -> None:
    text = "k;v\na;1,234\nb;5,678\n"
    with pytest.raises(GraphError, match=r"'v' holds '1,234', which may be 1.234 or 1234: say what stands before"):
        table(tmp_path, text)
    assert table(tmp_path, text, scale=False, decimal=",").x.flatten().tolist() == pytest.approx([1.234, 5.678])
    assert table(tmp_path, text, scale=False, decimal=".").x.flatten().tolist() == [1234, 5678]
    beside = "k;v;w;p\na;1,234;0,5;1.500\nb;5,678;1,5;20.000\n"  # another column tells, also what a point is
    data = table(tmp_path, beside, scale=False)
    assert data.x.tolist() == [pytest.approx([1.234, 0.5, 1500]), pytest.approx([5.678, 1.5, 20000])]
    assert any("the comma in 'v', 'w', 'p' is read as the sign before decimals" in note for note in data.notes)
    later = table(tmp_path, text, preprocessing=data.seen.preprocessing)  # and the first table tells for a later one
    assert later.x[:, 0].tolist() == pytest.approx([1.234, 5.678])
    with pytest.raises(SettingError, match="decimal is 'comma'"):
        TableColumns(decimal="comma")


def test_dates_are_days(tmp_path: Path) -> None:
    data = table(tmp_path, "k,d\na,1970-01-02\nb,1970-01-03 12:00:00\nc,\n", scale=False)
    assert data.x.flatten().tolist() == pytest.approx([1, 2.5, 1.75])
    data = table(tmp_path, "k,d,n\na,2026-02-30,1\nb,2026-01-01,2\n")
    assert data.feature_names == ["d=2026-01-01", "d=2026-02-30", "n"]  # the 30th of February is a word


# Columns that look like classes


def test_columns_that_look_like_classes_are_pointed_out_first(tmp_path: Path) -> None:
    case = CASES["customers"]()
    files, heard = case.write(tmp_path), list[str]()
    with pytest.warns(ClassLikeWarning, match=r"'segment' looks like classes .* --column 'label=segment'"):
        data = load_graph(files["january_edges"], nodes_table=files["january"], notice=heard.append)
    assert heard[0] == data.doubts[0]
    assert "'segment' looks like classes (3 different values in 420 rows)" in heard[0]
    assert not load_graph(data).notes[0].startswith("warning")  # loaded again without a second warning
    with pytest.raises(SettingError, match="'segment' is named as label, and is one of the features"):
        TableColumns(label="segment", preprocessing=data.seen.preprocessing)


def test_no_byte_depends_on_labels_that_are_named(tmp_path: Path) -> None:
    case = CASES["customers"]()
    found = []
    for label in (case.january.nodes["segment"], case.january.nodes["segment"][::-1], ["one"] * 420):
        case.january.nodes["segment"] = list(label)
        files = case.write(tmp_path)
        graph = load_graph(files["january_edges"], nodes_table=files["january"], columns=columns(case))
        found.append(plgc.condense(graph, nodes=6, settings=quick(8)).to_bytes())
    assert found[0] == found[1] == found[2]


# The description travels


def test_files_and_models_carry_the_description(tmp_path: Path) -> None:
    january, february = months(CASES["customers"](), tmp_path)
    known = january.seen.preprocessing
    condensed = plgc.CondensedGraph.load(plgc.condense(january, nodes=6, settings=quick(8)).save(tmp_path / "c"))
    assert condensed.seen.preprocessing == known
    model = plgc.load_model(plgc.finetune(plgc.reconstruct(condensed), january).save(tmp_path / "m"))
    assert model.names.preprocessing == known
    assert model.predict(february).shape == (500,)
    assert load_graph(save_npz(february, tmp_path / "f.npz")).seen.preprocessing.difference(known) is None
    assert training_edges(january, 0).seen.preprocessing == known
    files = CASES["customers"]().write(tmp_path)
    alone = load_graph(files["february_edges"], nodes_table=files["february"], columns=columns(CASES["customers"]()))
    for use in (model.predict, lambda graph: plgc.finetune(plgc.reconstruct(condensed), graph)):
        with pytest.raises(GraphError, match=r"'age' has fill .*, in the other"):
            use(alone)


def test_other_methods_carry_it_too(tmp_path: Path) -> None:
    january, _ = months(CASES["sensors"](), tmp_path)
    made = METHODS["coarsening"].condense(january, nodes=9, labels=training_labels(january), seed=0, compute=Compute())
    assert made.seen.preprocessing == january.seen.preprocessing
    assert made.seen.training_nodes is not None


def test_a_file_without_a_description_takes_a_table_only_as_it_is(tmp_path: Path) -> None:
    model = plgc.load_model(EARLIER / "node-3.safetensors")
    text = "k," + ",".join(f"f{place}" for place in range(20)) + "\n"
    text += "".join(
        f"{name}," + ",".join(str(place * at) for place in range(20)) + "\n" for at, name in enumerate("abc", 2)
    )
    assert model.predict(table(tmp_path, text, scale=False)).shape == (3,)
    with pytest.raises(GraphError, match="says nothing of how a table became its features"):
        model.predict(table(tmp_path, text, features=[f"f{place}" for place in range(20)]))


def test_flags_that_disagree_are_refused(tmp_path: Path) -> None:
    known = table(tmp_path, "k,size\na,1\nb,2\n").seen.preprocessing
    with pytest.raises(SettingError, match="--no-scale was given, but numbers of the table described were scaled"):
        TableColumns(scale=False, preprocessing=known)
    with pytest.raises(SettingError, match="'weight' is named as a feature, and is none of those described"):
        TableColumns(features=["weight"], preprocessing=known)


# Several owners


def test_owners_share_one_description(tmp_path: Path) -> None:
    case = CASES["rare"]()
    files, notes = case.write(tmp_path), list[str]()
    both = describe_tables([files["january"], files["february"]], columns(case, rare=5), notes)
    towns = next(rule for rule in both.columns if rule.name == "town").words
    counts = {town: (case.january.nodes["town"] + case.february.nodes["town"]).count(town) for town in towns}
    assert min(counts.values()) >= 5
    assert "tier" not in {rule.name for rule in both.columns}
    assert read_preprocessing(save_preprocessing(both, tmp_path / "d.json")) == both
    made = []
    for month in ("january", "february"):
        given = columns(case, preprocessing=both)
        graph = load_graph(files[f"{month}_edges"], nodes_table=files[month], columns=given)
        made.append(plgc.condense(graph, nodes=6, settings=quick(8), min_cluster=5))
    assert plgc.reconstruct(made).num_features == len(both.features)
    rules = (replace(both.columns[1], scale=7.0), *both.columns[2:])
    other = replace(made[1], seen=Seen(preprocessing=replace(both, columns=(both.columns[0], *rules))))
    with pytest.raises(
        GraphError, match=r"condensed graph 1 and condensed graph 2 .* 'visits' has scale .*, in the other 7"
    ):
        plgc.reconstruct([made[0], other])


def test_tables_of_owners_that_cannot_be_joined(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,size,extra\na,1,2\nb,2,3\n")
    (tmp_path / "b.csv").write_text("id,size\nc,tall\nd,short\n")
    (tmp_path / "c.csv").write_text("id,size\nc,5\nd,6\n")
    with pytest.raises(GraphError, match="'size' holds numbers in one table and words such as 'tall' in another"):
        describe_tables([tmp_path / "a.csv", tmp_path / "b.csv"], TableColumns(), [])
    notes: list[str] = []
    found = describe_tables([tmp_path / "a.csv", tmp_path / "c.csv"], TableColumns(), notes)
    assert found.features == ["size"]
    assert found.columns[0].centre == pytest.approx(3.5, abs=1e-2)  # of all four rows
    assert any("'extra' left out: not every table has it" in note for note in notes)


def test_rare_words_are_not_published_under_a_minimum(tmp_path: Path) -> None:
    case = CASES["rare"]()
    files = case.write(tmp_path)
    graph = load_graph(files["january_edges"], nodes_table=files["january"], columns=columns(case))
    with pytest.raises(SettingError, match=r"min_cluster is 5, .* lists words of 1 node\(s\) or more"):
        plgc.condense(graph, nodes=6, settings=quick(8), min_cluster=5)
    graph = load_graph(files["january_edges"], nodes_table=files["january"], columns=columns(case, rare=5))
    content = plgc.condense(graph, nodes=6, settings=quick(8), min_cluster=5).to_bytes()
    counts = {town: case.january.nodes["town"].count(town) for town in set(case.january.nodes["town"])}
    for town, count in counts.items():
        assert (json.dumps(town)[1:-1].encode() in content) == (count >= 5) or town in ("Hamlet 1", "Hamlet 2")


# Descriptions from strangers


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": [{"name": "a", "kind": "number"}]},
        {"columns": [{"name": "a", "kind": "words", "words": []}]},
        {"columns": [{"name": "a", "kind": "number", "fill": [1], "scale": 0}]},
        {"columns": [{"name": "a", "kind": "number", "fill": [1]}] * 2},
        {"rare": 0},
        {"more": 1},
        {"schema": 2},
        {"format": "other"},
    ],
)
def test_a_forged_description_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    sound = {"format": "plgc-preprocessing", "schema": 1, "columns": [{"name": "a", "kind": "number", "fill": [1.0]}]}
    path = tmp_path / "d.json"
    path.write_text(json.dumps(sound))
    assert read_preprocessing(path).features == ["a"]
    path.write_text(json.dumps(sound | change))
    with pytest.raises(SettingError, match="is not a description that 'plgc data describe' has written"):
        read_preprocessing(path)


def test_a_description_of_other_features_than_the_file_has_is_refused(tmp_path: Path) -> None:
    january, _ = months(CASES["sensors"](), tmp_path)
    condensed = plgc.condense(january, nodes=6, settings=quick(8))
    known = condensed.seen.preprocessing
    assert known is not None
    assert Preprocessing.from_dict(known.to_dict()) == known
    forged = replace(condensed, seen=Seen(preprocessing=replace(known, columns=known.columns[:2])))
    with pytest.raises(ArtifactError, match="describes 2 features of a table, and has 4"):
        plgc.CondensedGraph.load(forged.save(tmp_path / "forged"))


def test_a_matrix_of_unlike_scales_is_pointed_out() -> None:
    x = torch.tensor([[0.1, 20_000.0], [0.2, 30_000.0], [0.3, 10_000.0]])
    graph = load_graph(Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]), feature_names=["share", "income"]))
    assert any(
        "feature 'income' is up to 3e+04, 'share' up to 0.3: a factor of 100,000" in note for note in graph.notes
    )
    assert torch.equal(graph.x, x)
