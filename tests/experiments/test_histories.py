"""Files that came about in different ways: which calls a cell makes, what is scored and attacked, what a table says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.evaluation.forgetting import NEVER, attack_forgotten, draw_forgetting
from plgc.evaluation.growth import PER_CLASS, draw_growth, score_growth
from plgc.evaluation.kept import ways_of
from plgc.evaluation.membership import publish_members
from plgc.experiments.calls import cut_once
from plgc.experiments.cell import RunOptions, run_cell
from plgc.experiments.curves import draw_curves
from plgc.experiments.grid import Cell, Choice, cells, narrow
from plgc.experiments.growing import arrived, size
from plgc.experiments.run import groups_of
from plgc.experiments.spec import Within, load_experiment
from plgc.experiments.summary import summarise
from plgc.experiments.tables import make_table, to_text
from plgc.experiments.within import compared
from plgc.graphs import citation_graph, load_graph, save_npz
from plgc.method.settings import PRESETS
from plgc.runtime.errors import MissingExtraError, SettingError
from quick import quick


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only graph of the catalogue: 240 nodes that came from 2009 to 2014, without a split."""
    graph = load_graph(citation_graph(nodes=240, classes=3, features=40), notice=False)
    graph.time = torch.arange(240) % 6 + 2009.0
    for key in ("train_mask", "val_mask", "test_mask"):
        graph[key] = None
    save_npz(graph, tmp_path / "data" / "tiny.npz")
    monkeypatch.setenv("PLGC_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(PRESETS, "default", quick(16))
    return tmp_path


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so few nodes, next to nothing is seen through the noise, and few words have enough users."""
    monkeypatch.setattr("plgc.method.private.BUDGET", 50.0)
    monkeypatch.setattr("plgc.method.private.USERS", 5)


def a_cell(**values: Any) -> Cell:
    given: dict[str, Any] = {"graph": "tiny", "method": "plgc", "preset": "default", "nodes": 24, "seed": 1}
    given["task"] = "growing"
    return Cell(experiment="growing", **{**given, **values})


def options_in(folder: Path) -> RunOptions:
    return RunOptions(folder / "records.jsonl", folder / "store")


@pytest.mark.usefixtures("growing")
def test_the_head_knows_one_year_and_is_scored_on_the_next() -> None:
    graph = load_graph("tiny", time="year", notice=False)
    growth = draw_growth(graph, 2011, first=2010, seed=0)
    clean = growth.case.clean
    assert clean is not None
    before = growth.case.graph
    assert int(before["time"].max()) == 2011
    assert int(growth.after["time"].max()) == 2012
    assert all(int((before["y"][clean] == label).sum()) == PER_CLASS for label in range(3))
    assert growth.after["time"][growth.after["test_mask"]].unique().tolist() == [2012]
    old = {growth.old["node_ids"][node] for node in growth.old["test_mask"].nonzero().flatten().tolist()}
    given = {before["node_ids"][node] for node in clean.tolist()}
    assert old == {str(node) for node in range(240) if node % 6 < 2} - given


@pytest.mark.usefixtures("growing")
def test_what_arrived_has_a_halo_of_older_nodes() -> None:
    graph = load_graph("tiny", time="year", notice=False)
    part = arrived(graph, 2012)
    assert part["time"][part["core_mask"]].unique().tolist() == [2012]
    assert part["time"][~part["core_mask"]].max() < 2012
    assert size(a_cell(), graph, 2011) == 12  # half of the nodes, half of the size


def test_a_chain_of_updates_is_made_once(growing: Path) -> None:
    options = options_in(growing)
    run = {
        history: run_cell(a_cell(task="growing", history=history, year=2012), options)
        for history in ("anew", "never", "updated")
    }
    assert {name: record["kept_nodes"] for name, record in run.items()} == {"anew": 16, "never": 8, "updated": 16}
    assert {"accuracy", "learned_accuracy", "old_accuracy", "learned_old_accuracy"} <= set(run["updated"]["metrics"])
    assert not run["updated"]["reused"]
    assert run["updated"]["condense_cpu_seconds"] > 0
    assert len(list((growing / "store").glob("*.safetensors"))) == 4  # 2012 anew, 2010, and 2010's updated twice
    earlier = run_cell(a_cell(task="growing", history="updated", year=2011), options)
    assert earlier["reused"]
    new = run_cell(a_cell(task="growing", history="only-new", year=2011), options)
    assert new["kept_nodes"] == 12
    assert run_cell(a_cell(task="growing", history="new-part", year=2011), options)["kept_nodes"] == 12
    control = run_cell(a_cell(task="growing", method="raw_features", nodes=None, preset=None, year=2012), options)
    assert set(control["metrics"]) >= {"accuracy", "old_accuracy"}


def test_a_file_of_noise_passes_as_shipped_and_fails_alone() -> None:
    """The head also sees X, ÂX and Â²X, so that a file of noise passes for a good one: the second check finds it."""
    graph = load_graph(citation_graph(nodes=900, classes=4, features=200), notice=False)
    graph.time = torch.arange(900) % 3 + 2010.0
    draws = [draw_growth(graph, 2011, first=2010, seed=seed) for seed in range(3)]
    file = plgc.condense(
        draws[0].case.graph, nodes=30, seed=0, settings=quick(64, rounds=3, epochs=10), dtype="float32"
    )
    assert file.pseudo_labels is not None
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(file.pseudo_labels.shape, generator=generator)
    noise = replace(
        file,
        features=torch.rand(file.features.shape, generator=generator),
        pseudo_labels=torch.nn.functional.normalize(vectors, dim=1),
    )
    records = []
    for history, made in (("anew", file), ("updated", noise)):
        ways = ways_of(plgc.reconstruct(made, seed=0))
        for seed, growth in enumerate(draws):
            found = score_growth(ways, growth)
            records.append(made_up(history, 2011, seed, found["accuracy"], found["learned_accuracy"]))
    experiment = load_experiment("growing")
    checked = {one.row.way: one for one in compared(experiment, summarise(experiment, records))}
    assert checked[""].holds
    assert not checked["learned"].holds
    assert checked["learned"].difference.mean < -2


def test_who_leaves_and_who_was_never_there() -> None:
    graph = load_graph(citation_graph(nodes=300, classes=3, features=100), notice=False)
    for key in ("train_mask", "val_mask", "test_mask"):
        graph[key] = torch.zeros(300, dtype=torch.bool)
    graph.train_mask[::2] = True
    drawn = draw_forgetting(graph, 0.1, seed=0)
    assert int(drawn.forgotten.sum()) == 30 == int(drawn.outsiders.sum()) == round(NEVER * 300)
    assert not bool((drawn.forgotten & drawn.outsiders).any())
    assert not bool(((drawn.forgotten | drawn.outsiders) & graph.train_mask).any())
    assert (drawn.first.num_nodes, drawn.rest.num_nodes) == (270, 240)
    kept = (~drawn.outsiders).nonzero().flatten()
    assert torch.equal(kept[drawn.gone], drawn.forgotten.nonzero().flatten())
    with pytest.raises(SettingError, match="choose a smaller share"):
        draw_forgetting(graph, 0.45, seed=0)
    # A file of the first graph's own nodes knows who left; one of what remains knows neither.
    before = attack_forgotten(publish_members(drawn.first, 0), drawn)
    after = attack_forgotten(publish_members(drawn.rest, 0), drawn)
    assert before["auc_inversion"] > 0.95
    assert before["auc_features"] > 0.95
    assert abs(after["auc_inversion"] - 0.5) < 0.2
    assert abs(after["auc_features"] - 0.5) < 0.2


def test_forgetting_is_recorded_beside_condensing_again(growing: Path) -> None:
    options = options_in(growing)
    graph = load_graph("tiny", notice=False)
    graph.train_mask, graph.val_mask, graph.test_mask = (torch.arange(240) % 6 == place for place in range(3))
    save_npz(graph, growing / "data" / "tiny.npz")
    run = {
        history: run_cell(a_cell(task="forgetting", history=history, share=0.1), options)
        for history in ("anew", "forgotten", "old")
    }
    assert {name: record["kept_nodes"] for name, record in run.items()} == {"anew": 21, "forgotten": 21, "old": 24}
    for record in run.values():
        assert {"accuracy", "learned_accuracy", "auc", "auc_inversion", "auc_features"} <= set(record["metrics"])
    assert len({record["artifact_sha256"] for record in run.values()}) == 3


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("history", ["anew", "updated", "only-new", "never"])
def test_private_files_are_updated_as_private_ones(growing: Path, history: str) -> None:
    record = run_cell(a_cell(history=history, year=2012, release="private"), options_in(growing))
    assert record["settings"]["private"]
    assert record["cell"]["release"] == "private"


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("history", ["anew", "forgotten", "old"])
def test_private_files_forget_as_private_ones(growing: Path, history: str) -> None:
    graph = load_graph("tiny", notice=False)
    graph.train_mask, graph.val_mask, graph.test_mask = (torch.arange(240) % 6 == place for place in range(3))
    save_npz(graph, growing / "data" / "tiny.npz")
    cell = a_cell(task="forgetting", history=history, share=0.1, release="private")
    assert run_cell(cell, options_in(growing))["settings"]["private"]


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("history", ["whole", "heads", "merged"])
def test_private_files_merge_to_a_private_one(growing: Path, history: str) -> None:
    cell = a_cell(task="node", history=history, parts=3, partition="random", release="private")
    assert run_cell(cell, options_in(growing))["settings"]["private"]


def test_releases_that_a_task_does_not_have_are_refused() -> None:
    experiment = load_experiment("merging")
    with pytest.raises(SettingError, match=r"release is 'noise-0\.1': node has open, private"):
        replace(experiment, levels={**experiment.levels, "release": ("noise-0.1",)})
    with pytest.raises(SettingError, match="release is 'open': membership has default"):
        replace(load_experiment("membership"), levels={"release": ("open",)})


def test_every_experiment_runs_its_controls_once_and_its_histories_apart() -> None:
    for name in ("growing", "merging", "forgetting"):
        planned = list(cells(narrow(load_experiment(name), Choice(seeds=1))))
        assert {(cell.history, cell.release) for cell in planned if cell.method != "plgc"} == {(None, None)}
        groups = groups_of([cell for cell in planned if cell.method == "plgc"])
        assert all(len({(cell.history, cell.release) for cell in group}) == 1 for group in groups)
        assert {cell.release for group in groups for cell in group} == {"open", "private"}
    chosen = narrow(load_experiment("growing"), Choice(seeds=1, year=(2012, 2013)))
    assert {cell.year for cell in cells(chosen)} == {2012, 2013}


def test_a_cut_by_metis_is_taken_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_graph) -> None:
    graph = load_graph(demo_graph, notice=False)
    part = cut_once(tmp_path, graph, 3, 0)
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    assert torch.equal(cut_once(tmp_path, graph, 3, 0), part)
    with pytest.raises(MissingExtraError):
        cut_once(tmp_path, graph, 3, 1)


def made_up(history: str | None, year: int, seed: int, accuracy: float, learned: float) -> dict[str, Any]:
    ours = {} if history else {"method": "plain_parts", "preset": None, "nodes": None}
    cell = {**vars(a_cell(task="growing", history=history, year=year, seed=seed)), "graph": "arxiv_llm_text"}
    metrics = {"accuracy": accuracy} | ({"learned_accuracy": learned} if history else {})
    return {"cell": {**cell, "nodes": 457, **ours}, "metrics": metrics}


def test_a_table_says_where_a_claim_holds_in_both_ways() -> None:
    experiment = load_experiment("growing")
    records = [
        made_up(history, year, seed, 60 + seed - fall * (year == 2012), 50 + seed - 3 * fall)
        for history, fall in (("anew", 0.0), ("updated", 0.4), ("only-new", 2.0), (None, 5.0))
        for year in (2011, 2012)
        for seed in range(3)
    ]
    assert experiment.within == (Within("updated", "anew", 0.5), Within("only-new", "anew", 1.5))
    text = to_text(make_table(experiment, records))
    assert "updated within 0.5 of anew, as shipped: in 2 of 2 cell(s), -0.2 on average, -0.4 at worst" in text
    assert "updated within 0.5 of anew, learned part alone: in 0 of 2 cell(s), -1.2 on average, -1.2 at worst" in text
    assert "only-new within 1.5 of anew, as shipped: in 1 of 2 cell(s)" in text
    line = next(line for line in text.splitlines() if "updated − anew " in line)
    assert "-0.4 [-0.4, -0.4]" in line
    private = [{**record, "cell": {**record["cell"], "release": "private"}} for record in records[:-6]]
    both = to_text(make_table(experiment, [*records, *private]))
    assert "updated within 0.5 of anew, as shipped, private files: in 2 of 2 cell(s)" in both
    assert "updated within 0.5 of anew, as shipped: in 2 of 2 cell(s)" in both
    figure = draw_curves(experiment, records)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert [title.partition(": ")[2] for title in titles] == ["as shipped", "learned part alone"]
    assert {"anew", "updated", "only-new"} <= set(figure.axes[0].get_legend_handles_labels()[1])
