"""Cells: how many, in which order, each once. A choice: what it keeps, and that the paper's numbers follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import pytest

from plgc.experiments.grid import Cell, Choice, cells, narrow
from plgc.experiments.spec import Experiment, list_experiments, load_experiment, parse_experiment
from plgc.runtime.errors import SettingError

EXPERIMENT = """
title = "A grid"
task = "node"
methods = ["plgc", "ssl", "random", "whole", "random_encoder"]
presets = ["default", "paper"]
seeds = 3
[levels]
noise = [0.0, 0.5]
shots = [1, 3]

[[graphs]]
name = "cora"
nodes = [35, 70, 140]
ratios = ["1.3 %", "2.6 %", "5.2 %"]
labels = 21
[graphs.paper]
plgc = [[1.0, 0.1], [2.0, 0.2], [3.0, 0.3]]
gcond = [[4.0, 0.4], [], [6.0, 0.6]]
whole = [[7.0, 0.7]]

[[graphs]]
name = "citation_dblpv7"
nodes = [70]
seeds = 2
presets = ["default"]
noise = [0.9]
inductive = true
"""


@pytest.fixture
def grid() -> Experiment:
    return parse_experiment("grid", EXPERIMENT)


def test_number_of_cells(grid: Experiment) -> None:
    found = Counter((cell.graph, cell.method) for cell in cells(grid))
    levels = 2 * 2
    assert found == {
        ("cora", "plgc"): 3 * 2 * 3 * levels,  # seeds, presets, sizes
        ("cora", "ssl"): 3 * 2 * 3 * 2,  # no label is read before the clean ones: once for both rates of wrong ones
        ("cora", "random"): 3 * 3 * levels,
        ("cora", "whole"): 3 * levels,
        ("cora", "random_encoder"): 3 * 2,
        **{("citation_dblpv7", method): 2 * 2 for method in grid.methods},
    }


@pytest.mark.parametrize("experiment", list_experiments(), ids=lambda found: found.name)
def test_no_cell_is_there_twice(experiment: Experiment) -> None:
    found = [cell.identity() for cell in cells(experiment)]
    assert len(found) == len(set(found)) > 0


def test_sizes_and_presets_belong_to_the_methods_that_have_them(grid: Experiment) -> None:
    for cell in cells(grid):
        assert (cell.preset is not None) == (cell.method in ("plgc", "ssl"))
        assert (cell.nodes is None) == (cell.method in ("whole", "random_encoder"))
    assert {cell.preset for cell in cells(grid) if cell.graph != "cora"} == {"default", None}


def test_first_seeds_of_everything_come_first(grid: Experiment) -> None:
    found = list(cells(grid))
    assert [cell.seed for cell in found] == sorted(cell.seed for cell in found)
    assert {cell.graph for cell in found if cell.seed == 1} == {"cora", "citation_dblpv7"}
    assert {cell.graph for cell in found if cell.seed == 2} == {"cora"}


def test_protocol_of_a_cell(grid: Experiment) -> None:
    first, *_, last = (cell for cell in cells(grid) if cell.seed == 0 and cell.method in ("plgc", "whole"))
    assert (first.graph, first.noise, first.shots, first.labels, first.inductive) == ("cora", 0.0, 1, 21, False)
    assert (last.graph, last.noise, last.shots, last.labels, last.inductive) == ("citation_dblpv7", 0.9, 3, None, True)
    protocol = last.protocol
    assert (protocol.task, protocol.noise, protocol.shots, protocol.inductive) == ("node", 0.9, 3, True)
    plain = replace(grid, levels={"shots": (1,)})
    assert {cell.labels for cell in cells(plain) if cell.graph == "cora"} == {None}  # noise or sources set a budget


def test_choice_of_graphs_follows_its_order(grid: Experiment) -> None:
    chosen = narrow(grid, Choice(datasets=("Citation-DBLPv7", "cora", "CORA")))
    assert [graph.name for graph in chosen.graphs] == ["citation_dblpv7", "cora"]
    with pytest.raises(SettingError, match="grid has no graph 'pubmed': choose cora, citation_dblpv7"):
        narrow(grid, Choice(datasets=("pubmed",)))


def test_papers_numbers_follow_the_sizes(grid: Experiment) -> None:
    cora = narrow(grid, Choice(nodes=(140, 35))).graphs[0]
    assert (cora.nodes, cora.ratios) == ((35, 140), ("1.3 %", "5.2 %"))
    assert cora.paper == {"plgc": [[1.0, 0.1], [3.0, 0.3]], "gcond": [[4.0, 0.4], [6.0, 0.6]], "whole": [[7.0, 0.7]]}
    one = narrow(grid, Choice(nodes=(70,))).graphs
    assert [(graph.name, graph.nodes) for graph in one] == [("cora", (70,)), ("citation_dblpv7", (70,))]
    assert one[0].paper == {"plgc": [[2.0, 0.2]], "gcond": [[]], "whole": [[7.0, 0.7]]}
    assert narrow(replace(grid, graphs=one), Choice(nodes=(70,))).graphs == one
    with pytest.raises(SettingError, match="has 71 nodes: choose 35, 70, 140"):
        narrow(grid, Choice(nodes=(70, 71)))


def test_choice_of_methods_may_go_beyond_the_file(grid: Experiment) -> None:
    chosen = narrow(grid, Choice(methods=("coarsening", "plgc", "plgc")))
    assert chosen.methods == ("coarsening", "plgc")
    assert set(chosen.graphs[0].paper) == {"plgc"}
    with pytest.raises(SettingError, match="unknown method 'magic'"):
        narrow(grid, Choice(methods=("magic",)))


def test_choice_of_levels_is_every_graphs(grid: Experiment) -> None:
    chosen = narrow(grid, Choice(noise=(0.3,), shots=(5, 7)))
    assert {(cell.noise, cell.shots) for cell in cells(chosen) if cell.method == "plgc"} == {(0.3, 5), (0.3, 7)}
    with pytest.raises(SettingError, match=r"noise is 1\.5: a share from 0 to 1"):
        narrow(grid, Choice(noise=(1.5,)))
    with pytest.raises(SettingError, match="table3 has no noise to choose"):
        narrow(load_experiment("table3"), Choice(noise=(0.5,)))


def test_choice_of_presets_and_seeds_is_every_graphs(grid: Experiment) -> None:
    chosen = list(cells(narrow(grid, Choice(presets=("paper",), seeds=5))))
    assert {cell.preset for cell in chosen} == {"paper", None}
    assert {(cell.graph, cell.seed) for cell in chosen} == {(g.name, seed) for g in grid.graphs for seed in range(5)}
    with pytest.raises(SettingError, match="unknown preset 'best'"):
        narrow(grid, Choice(presets=("best",)))
    with pytest.raises(SettingError, match="seeds is 0"):
        narrow(grid, Choice(seeds=0))


def test_no_choice_changes_nothing(grid: Experiment) -> None:
    assert narrow(grid, Choice()) == grid


@pytest.mark.parametrize("name", ["datasets", "methods", "presets", "nodes", "noise", "shots"])
def test_an_empty_choice_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is empty"):
        Choice(**{name: ()})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        ({}, True),
        ({"methods": ("plgc", "whole")}, True),
        ({"methods": ("whole",)}, False),
        ({"presets": ("default",)}, True),
        ({"presets": ("paper",)}, False),
        ({"noise": (0.5,)}, True),
        ({"noise": (0.0,)}, False),
        ({"shots": (3, 5)}, False),
        ({"seeds": 3}, True),
        ({"seeds": 2}, False),
    ],
)
def test_choice_among_records(choice: dict[str, Any], taken: bool) -> None:
    cell = Cell("grid", "cora", "plgc", 70, "default", 2, "node", noise=0.5)
    assert Choice(**choice).takes(asdict(cell)) is taken
    control = replace(cell, method="random_encoder", nodes=None, preset=None)
    assert Choice(**choice).takes(asdict(control)) is (taken or bool({"methods", "presets"} & set(choice)))


def test_costly_methods_take_their_part_unless_they_are_named() -> None:
    text = EXPERIMENT.replace(
        "[[graphs]]",
        '[costly.random]\ngraphs = ["cora"]\nnodes = [70]\nnoise = [0.5]\nseeds = 2\n\n[[graphs]]',
        1,
    )
    grid = parse_experiment("grid", text)
    taken = [cell for cell in cells(grid) if cell.method == "random"]
    assert {(cell.graph, cell.nodes, cell.noise, cell.seed) for cell in taken} == {
        ("cora", 70, 0.5, 0),
        ("cora", 70, 0.5, 1),
    }
    assert len(taken) == 2 * 2  # shots
    everything = [cell for cell in cells(parse_experiment("grid", EXPERIMENT)) if cell.method == "random"]
    assert [cell for cell in cells(narrow(grid, Choice(methods=("random",)))) if cell.method == "random"] == everything
    assert len([cell for cell in cells(narrow(grid, Choice(seeds=1))) if cell.method == "random"]) == 2


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ('graphs = ["coro"]', "'coro' is not in the experiment: choose cora, citation_dblpv7"),
        ("nodes = [71]", "71 is not in the experiment: choose 35, 70, 140"),
        ("noise = []", "noise is empty"),
        ("seeds = 0", "seeds is 0"),
        ("rates = [1]", "unknown key 'rates'"),
    ],
)
def test_wrong_parts_are_refused(part: str, wrong: str) -> None:
    text = EXPERIMENT.replace("[[graphs]]", f"[costly.random]\n{part}\n\n[[graphs]]", 1)
    with pytest.raises(SettingError, match=wrong.replace("[", r"\[")):
        parse_experiment("grid", text)


def test_methods_without_labels_run_once_for_all_rates_of_wrong_labels() -> None:
    grid = parse_experiment(
        "grid", EXPERIMENT.replace('task = "node"', 'task = "link"').replace('"whole"', '"whole", "gecc"')
    )
    rates = {method: {cell.noise for cell in cells(grid) if cell.method == method} for method in grid.methods}
    assert rates.pop("random") == rates.pop("gecc") == {0.0, 0.5, 0.9}
    assert set(map(frozenset, rates.values())) == {frozenset({None})}
    identities = [cell.identity() for cell in cells(grid)]
    assert len(identities) == len(set(identities))


def test_levels_that_play_no_part_for_a_method_are_left_out() -> None:
    text = EXPERIMENT.replace("shots = [1, 3]", 'partition = ["none", "metis"]\ncombine = ["heads", "sum"]')
    grid = parse_experiment("grid", text.replace("labels = 21", "labels = 21\nparts = 3"))
    found = [cell for cell in cells(grid) if cell.graph == "cora" and cell.seed == 0 and not cell.noise]
    ways = {m: {(c.parts, c.partition, c.combine) for c in found if c.method == m} for m in grid.methods}
    cut = {(3, "none", None), (3, "metis", "heads"), (3, "metis", "sum")}
    assert ways["plgc"] == ways["random"] == cut
    assert ways["whole"] == ways["random_encoder"] == {(3, None, None)}
    assert {cell.labels for cell in found} == {21}
