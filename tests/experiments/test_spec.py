"""Experiments as files: those that ship are sound and hold the paper's numbers; mistakes are refused, with a reason."""

from __future__ import annotations

import os

import pytest

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.grid import cells
from plgc.experiments.spec import GraphPlan, list_experiments, load_experiment, parse_experiment
from plgc.graphs.catalog import list_graphs, normalised
from plgc.runtime.errors import SettingError

SHIPPED = (
    *("ablation", "citation_trio", "clustering", "cost", "cross_arch", "every_graph", "fig3", "fig4", "fig5", "fig6"),
    *("forgetting", "growing", "label_shift", "membership", "merging", "partitions", "table3", "table4", "twitch"),
)
SEEDS = {"ablation": 5, "cost": 3, "every_graph": 5, "forgetting": 20, "growing": 3, "twitch": 5}
SMALL = """
title = "Small"
task = "node"
methods = ["plgc", "whole"]
[levels]
shots = [1, 3]
[[graphs]]
name = "cora"
nodes = [35, 70]
[graphs.paper]
plgc = [[1.0, 0.1], [2.0, 0.2]]
"""


def plan(experiment: str, graph: str) -> GraphPlan:
    return next(plan for plan in load_experiment(experiment).graphs if plan.name == graph)


def test_every_experiment_is_listed() -> None:
    assert tuple(found.name for found in list_experiments()) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_file_is_sound(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    assert experiment.title
    assert experiment.about.strip()
    assert experiment.seeds == SEEDS.get(name, 10)
    if name not in ("citation_trio", "growing", "twitch"):
        assert {"cora", "citeseer"} <= {graph.name for graph in experiment.graphs}
    assert experiment.pending is None
    assert next(cells(experiment)).experiment == name
    for graph in experiment.graphs:
        assert graph.inductive == (graph.name in ("flickr", "reddit")), graph.name


@pytest.mark.parametrize(
    ("experiment", "graph", "method", "nodes", "pair"),
    [
        ("table3", "cora", "plgc", 70, [81.6, 0.6]),
        ("table3", "cora", "whole", None, [81.2, 0.2]),
        ("table3", "citeseer", "geom", 60, [74.3, 0.1]),
        ("table3", "ogbn-arxiv", "plgc", 909, [69.8, 0.1]),
        ("table3", "flickr", "sfgc", 44, [46.6, 0.2]),
        ("table3", "reddit", "random", 4618, [78.4, 1.3]),
        ("table3", "reddit", "gcond", 4618, []),
        ("table4", "cora", "plgc", 70, [73.4, 3.2]),
        ("table4", "citeseer", "ctgc", 60, [63.2, 1.8]),
        ("table4", "reddit", "whole", None, [85.4, 0.3]),
    ],
)
def test_papers_numbers_are_as_printed(
    experiment: str, graph: str, method: str, nodes: int | None, pair: list[float]
) -> None:
    found = plan(experiment, graph)
    assert found.paper[method][0 if nodes is None else found.nodes.index(nodes)] == pair


def test_counts_of_the_papers_label_budgets() -> None:
    assert [(graph.name, graph.labels) for graph in load_experiment("fig4").graphs[:2]] == [
        ("cora", 21),
        ("citeseer", 18),
    ]


def test_unknown_experiment_lists_the_names() -> None:
    with pytest.raises(SettingError, match=f"no experiment 'table9': choose one of {', '.join(SHIPPED)}"):
        load_experiment("table9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", "unknown key 'titel': choose title, task"),
        ('title = "Small"', "", "the key 'title' is missing"),
        ('name = "cora"', "", "graph None: the key 'name' is missing"),
        ("nodes =", "node =", "graph 'cora': unknown key 'node'"),
        ('"whole"]', '"magic"]', "unknown method 'magic': choose one of plgc"),
        ('"whole"]', '"plgc"]', "methods: plgc is there twice"),
        ('["plgc", "whole"]', "[]", "at least one graph and one method"),
        ('task = "node"', 'task = "edge"', "unknown task 'edge'"),
        ("[levels]", 'metric = "f1"\n[levels]', "unknown metric 'f1': choose accuracy"),
        ("[levels]", 'presets = ["best"]\n[levels]', "unknown preset 'best': choose default, paper"),
        ("[levels]", "presets = []\n[levels]", "presets is empty"),
        ("[levels]", "seeds = 0\n[levels]", "seeds is 0"),
        ("[levels]", 'across = "noise"\n[levels]', "across is 'noise', which has no levels"),
        ("shots =", "ratio =", "unknown level ratio: choose variant, shots, noise"),
        ("[1, 3]", "[0]", "shots is 0: a whole number from 1"),
        ("[1, 3]", '["every"]', 'shots is .every.: a whole number from 1, or "all", is needed'),
        ("[1, 3]", '["all", 1, "all"]', "shots: all is there twice"),
        ("shots = [1, 3]", 'noise = ["all"]', "noise is 'all'"),
        ("[levels]", "[draws]\n3 = 0\n[levels]", "draws with 3 labels is 0: at least 1"),
        ("[levels]", "[draws]\nall = 3\n[levels]", "draws has the key 'all': a number of labels per class"),
        ("[levels]", 'against = ["magic"]\n[levels]', "unknown method 'magic'"),
        ("[levels]", "[costly.whole]\ndraws = 0\n[levels]", "draws is 0: at least 1"),
        ("[35, 70]", '[35, 70]\nmetric = "f1"', "graph 'cora': unknown metric 'f1': choose accuracy"),
        ("[35, 70]", "[35, 70]\ndraws = 0", "graph 'cora': draws is 0"),
        ("[1, 3]", "[]", "shots is empty"),
        ("[1, 3]", "[3, 3]", "shots: 3 is there twice"),
        ("shots = [1, 3]", "noise = [1.5]", "noise is 1.5: a share from 0 to 1"),
        ("shots = [1, 3]", "noise = [nan]", "noise is nan"),
        ("shots = [1, 3]", 'backbone = ["lstm"]', "unknown backbone 'lstm': choose gcn"),
        ("[35, 70]", "[35, 1]", r"nodes is \[35, 1\], whole numbers from 2"),
        ("[35, 70]", "[]", r"nodes is \[\]"),
        ("[35, 70]", "[35, 35]", "nodes: 35 is there twice"),
        ("[35, 70]", '[35, 70]\nratios = ["1 %"]', "a ratio for every node count"),
        ("[35, 70]", "[35, 70]\nseeds = 0", "graph 'cora': seeds is 0"),
        ("[35, 70]", "[35, 70]\nnoise = [2]", "graph 'cora': noise is 2"),
        ("plgc = [[", "glpc = [[", "the paper's numbers name an unknown method 'glpc'"),
        (", [2.0, 0.2]]", "]", "1 of the paper's numbers for plgc, not 2"),
        ("[2.0, 0.2]", "[2.0]", r"plgc has \[2.0\], not a mean and a standard deviation"),
        ("[2.0, 0.2]", "[nan, 0.2]", "not a mean and a standard deviation"),
        ("plgc = [[1.0, 0.1], [2", "whole = [[1.0, 0.1], [2", "2 of the paper's numbers for whole, not 1"),
        ("[1, 3]", "[1, 3", "not a TOML file"),
        ("[1, 3]", "3", "shots is 3: a list is needed"),
        ("[35, 70]", "35", "nodes is 35: a list is needed"),
        ('["plgc", "whole"]', '"plgc"', "methods is 'plgc': a list is needed"),
    ],
)
def test_mistakes_are_refused(old: str, new: str, message: str) -> None:
    assert parse_experiment("small", SMALL).graphs[0].nodes == (35, 70)
    assert SMALL.count(old) == 1
    with pytest.raises(SettingError, match=f"^experiment small: .*{message}"):
        parse_experiment("small", SMALL.replace(old, new))


def test_a_graph_is_named_once() -> None:
    with pytest.raises(SettingError, match="graphs: cora is there twice"):
        parse_experiment("small", SMALL + '[[graphs]]\nname = "Cora"\nnodes = [5]\n')


def test_an_empty_pair_is_accepted() -> None:
    found = parse_experiment("small", SMALL.replace("[2.0, 0.2]", "[]"))
    assert list(found.graphs[0].paper["plgc"]) == [[1.0, 0.1], []]


def test_every_graph_has_all_labels_and_few_and_auroc_where_classes_are_unbalanced() -> None:
    experiment = load_experiment("every_graph")
    assert experiment.levels["shots"] == (None, 1, 3, 5)
    assert experiment.draws[3] == 20
    assert set(CONTROLS) | {"plgc", *experiment.against} <= set(experiment.methods)
    unbalanced = {plan.name for plan in experiment.graphs if plan.metric == "auroc"}
    assert unbalanced == {"minesweeper", "tolokers", "twitch_DE", "twitch_ENGB", "twitch_FR"}
    assert (experiment.metric_of("tolokers"), experiment.metric_of("cora")) == ("auroc", "accuracy")
    assert (experiment.factor("auroc"), experiment.factor("accuracy")) == (100.0, 1.0)
    assert load_experiment("fig6").factor("auroc") == 1.0  # no accuracy beside it


@pytest.mark.skipif(not os.environ.get("PLGC_DATA"), reason="PLGC_DATA names no folder with real graphs")
def test_every_graph_is_every_graph() -> None:
    """Those of the folder that have features, each once; rows for every class."""
    here = {normalised(entry.name): entry for entry in list_graphs() if entry.where == "PLGC_DATA" and entry.features}
    plans = {normalised(plan.name): plan for plan in load_experiment("every_graph").graphs}
    assert plans.keys() == here.keys()
    for name, plan in plans.items():
        assert plan.nodes[0] >= 2 * (here[name].classes or 0), name


def test_every_rival_has_five_seeds_and_controls_come_together() -> None:
    """Fewer only where costs are compared, and where a method is run once for each of many graphs."""
    for experiment in list_experiments():
        if experiment.name != "cost":
            seeds = {part.seeds for part in experiment.costly.values()} - {None}
            assert min(seeds, default=5) >= 5, experiment.name
        if "propagated_features" in experiment.methods:
            assert set(CONTROLS) <= set(experiment.methods), experiment.name


def test_methods_are_where_they_are_compared() -> None:
    for name, methods in (
        ("fig4", {"gcond", "gcond-x", "sfgc", "gecc", "ctgc"}),
        ("fig5", {"gcond", "gcond-x", "sfgc"}),
        ("fig6", {"gcond", "gcond-x", "sfgc"}),
        ("label_shift", {"gecc", "gcdm-x", "gcond-x"}),
        ("table3", {"whole_mlp", "geom"}),
        ("table4", {"whole_mlp", "gcond"}),
        ("fig3", {"whole_mlp"}),
    ):
        ran = {cell.method for cell in cells(load_experiment(name)) if cell.graph == "cora"}
        assert methods <= ran, name


def test_who_may_reuse_is_one_of_three() -> None:
    assert load_experiment("fig4").reuse == "supervised"  # ours is condensed anew at every rate
    assert load_experiment("cost").reuse == "none"
    with pytest.raises(SettingError, match="reuse is 'some': choose all, supervised, none"):
        parse_experiment("small", f'reuse = "some"\n{SMALL}')
