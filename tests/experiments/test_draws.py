"""Label draws of a seed: how many a cell has, what they share, and what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from plgc.downstream.embedder import Embedder
from plgc.evaluation.kept import KeptEmbedding, Ways, ways_of
from plgc.evaluation.scoring import learn, score
from plgc.experiments import cell as cell_module
from plgc.experiments import shared as shared_module
from plgc.experiments import store as store_module
from plgc.experiments.grid import Cell, Choice, cells, label_seeds, narrow
from plgc.experiments.records import identity, read_records
from plgc.experiments.run import RunOptions, run_experiment
from plgc.experiments.shared import SharedGraph, shared_graph
from plgc.experiments.spec import Experiment, load_experiment, parse_experiment
from plgc.graphs import citation_graph, load_graph, save_npz
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.runtime.errors import SettingError
from plgc.sparse.inputs import Inputs

DRAWN = """
title = "Draws"
task = "node"
methods = ["plgc", "raw_features", "whole", "random"]
seeds = 2
[levels]
shots = ["all", 1, 3]
[draws]
3 = 4
[costly.whole]
draws = 2
[[graphs]]
name = "tiny"
nodes = [6]
[[graphs]]
name = "cora"
nodes = [70]
metric = "auroc"
draws = 3
"""


@pytest.fixture
def drawn() -> Experiment:
    return parse_experiment("drawn", DRAWN)


@pytest.fixture
def options(tmp_path: Path, data: Path) -> RunOptions:
    return RunOptions(tmp_path / "runs" / "records.jsonl", tmp_path / "artifacts")


def of(experiment: Experiment, graph: str, method: str) -> dict[int | None, int | None]:
    """The draws of a method's cells, by the number of labels."""
    return {cell.shots: cell.draws for cell in cells(experiment) if (cell.graph, cell.method) == (graph, method)}


def test_draws_are_for_the_numbers_of_labels_that_have_them(drawn: Experiment) -> None:
    assert of(drawn, "tiny", "plgc") == {None: None, 1: None, 3: 4}
    assert of(drawn, "tiny", "whole") == {None: None, 1: None, 3: 2}
    assert of(drawn, "cora", "plgc") == {None: None, 1: None, 3: 3}
    assert {cell.metric for cell in cells(drawn) if cell.graph == "cora"} == {"auroc"}
    more = narrow(drawn, Choice(draws=7))
    assert (of(more, "tiny", "plgc")[3], of(more, "cora", "plgc")[3], of(more, "tiny", "whole")[3]) == (7, 7, 2)
    assert of(narrow(drawn, Choice(methods=("whole",))), "tiny", "whole")[3] == 4  # chosen: not the costly part alone
    assert {cell.shots for cell in cells(narrow(drawn, Choice(shots=(None, 3))))} == {None, 3}
    with pytest.raises(SettingError, match="table4 draws labels once a seed"):
        narrow(load_experiment("table4"), Choice(draws=2))


def test_seeds_of_draws_never_meet() -> None:
    assert label_seeds(3, None) == (3,)
    assert label_seeds(3, 2) == (3000, 3001)
    drawn = [seed for one in range(20) for seed in label_seeds(one, 100)]
    assert len(drawn) == len(set(drawn))


def test_records_of_before_have_no_draws() -> None:
    cell = Cell("old", "cora", "plgc", 70, "default", 0, "node")
    old = {key: value for key, value in cell.identity() if key not in ("draws", "metric")}
    assert identity({"cell": old}) == cell.identity()


def test_every_draw_is_recorded_and_condensed_once(
    options: RunOptions, drawn: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed: list[str] = []
    real = store_module.condense_with

    def condense_with(name: str, *arguments: Any, **settings: Any) -> Any:
        condensed.append(name)
        return real(name, *arguments, **settings)

    monkeypatch.setattr(store_module, "condense_with", condense_with)
    chosen = Choice(("tiny",), ("plgc", "random"), shots=(3,), seeds=1)
    assert run_experiment(narrow(drawn, chosen), options).run == 2
    assert condensed == ["plgc", *["random"] * 4]  # labels are all that draws differ in
    ours, rival = read_records([options.records])
    for record in (ours, rival):
        values = record["values"]["accuracy"]
        assert len(values) == 4
        assert len(set(values)) > 1
        assert record["metrics"]["accuracy"] == pytest.approx(sum(values) / 4)
        assert record["clean_labels"] == 9
    assert len(ours["values"]["learned_accuracy"]) == 4  # without the parts that need no file
    assert "parts_accuracy" not in ours["values"]  # as shipped is that already
    assert len(rival["values"]["learned_accuracy"]) == len(rival["values"]["parts_accuracy"]) == 4
    # every draw is the score that its labels give
    graph = load_graph("tiny", seed=0)
    file = next(path for path in (options.store or Path()).glob("*.safetensors") if _method(path) == "plgc")
    for place in (0, 3):
        case = draw_case(graph, Protocol(shots=3), place)
        model = learn("plgc", case, [store_module.CondensedGraph.load(file)])
        assert score(model, case, "node")["accuracy"] == ours["values"]["accuracy"][place]


def _method(path: Path) -> str:
    return store_module.CondensedGraph.load(path).method


def test_a_single_draw_has_no_list(options: RunOptions, drawn: Experiment) -> None:
    run_experiment(narrow(drawn, Choice(("tiny",), ("random_encoder",), shots=(1,), seeds=1)), options)
    [record] = read_records([options.records])
    assert "values" not in record
    assert set(record["metrics"]) == {"accuracy", "macro_f1"}  # a control has one way


# What cells share


class Fixed(Embedder):
    """An embedder that counts how often it is asked."""

    num_features, scaling, calls = 40, "none", 0

    def __init__(self, **parts: int) -> None:
        self.parts = parts

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def embed(self, graph: Inputs) -> torch.Tensor:
        self.calls += 1
        return torch.arange(3.0 * sum(self.parts.values())).reshape(3, -1)


def test_an_embedding_is_computed_once_and_its_parts_are_its_columns() -> None:
    graph, other = object(), object()
    embedder = Fixed(learned=2, x=3, learned_plain=1)
    ways = ways_of(embedder)
    whole, part = ways[""], ways["learned_"]
    assert part.parts == {"learned": 2, "learned_plain": 1}
    assert part.embed(graph).tolist() == whole.embed(graph)[:, [0, 1, 5]].tolist()  # pyright: ignore
    assert embedder.calls == 1
    whole.embed(other)  # pyright: ignore
    assert embedder.calls == 2
    assert list(ways_of(Fixed(x=2, propagated_2=2))) == [""]


def test_a_shared_graph_keeps_one_embedding(data: Path) -> None:
    shared = SharedGraph(load_graph("tiny"))
    made: list[str] = []

    def make(name: str) -> Ways:
        made.append(name)
        return {"": KeptEmbedding(Fixed(x=1))}

    for name in ("a", "a", "b", "a"):
        shared.embeddings(name, lambda name=name: make(name))
    assert made == ["a", "b", "a"]
    shared.keep_only("a")
    shared.embeddings("a", lambda: make("a"))
    shared.keep_only("b")
    shared.embeddings("a", lambda: make("a"))
    assert made == ["a", "b", "a", "a"]


def test_a_graph_is_loaded_once_for_a_seed_and_again_when_it_changes(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shared_graph("tiny", 0)
    assert shared_graph("tiny", 0) is first
    assert shared_graph("tiny", 1) is not first
    again = shared_graph("tiny", 0)
    save_npz(citation_graph(nodes=90, classes=3, features=40), data / "tiny.npz")
    changed = shared_graph("tiny", 0)
    assert changed is not again
    assert changed.graph.num_nodes == 90
    assert len(shared_module._kept) == 1


@pytest.mark.slow
def test_sharing_changes_no_figure(options: RunOptions, drawn: Experiment, tmp_path: Path) -> None:
    """All cells one after the other, and each by itself in a process that has seen nothing."""
    chosen = narrow(drawn, Choice(("tiny",), seeds=1))
    run_experiment(chosen, options)
    for record in read_records([options.records]):
        shared_module._kept.clear()
        cell = next(cell for cell in cells(chosen) if cell.identity() == identity(record))
        alone = cell_module.run_cell(cell, RunOptions(tmp_path / "r.jsonl", tmp_path / "other"))
        assert alone["metrics"] == record["metrics"], cell
        assert alone.get("values") == record.get("values")
