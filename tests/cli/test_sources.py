"""Several sources on the command line: one folder, its manifest, what is reported, refused and kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import plgc
from plgc.cli import inputs, options
from plgc.downstream.combine import COMBINATIONS
from plgc.graphs import citation_graph, save_npz
from plgc.graphs.views.partition import PARTITIONS
from plgc.sources import MANIFEST
from plgc.sources.engine import ENGINES

CONTRACT = {"artifact", "graph", "nodes", "seed", "seconds", "peak_memory_bytes", "bytes", "nodes_requested"}
KEPT = 10


@pytest.fixture(scope="module")
def owners(folder: Path) -> list[Path]:
    """Three graphs of 150 nodes, 3 classes and 40 features."""
    made = [citation_graph(nodes=450, classes=3, features=40, seed=seed) for seed in range(3)]
    return [save_npz(graph, folder / f"owner{number}.npz") for number, graph in enumerate(made)]


@pytest.fixture(scope="module")
def two_run(run: Any, folder: Path, owners: list[Path]) -> Any:
    return run("condense", *owners[:2], "--nodes", KEPT, "-o", folder / "two", "--seed", 4, "--json")


@pytest.fixture(scope="module")
def two(two_run: Any) -> Path:
    """A folder of two sources; no test may change it."""
    return Path(two_run.result["manifest"]).parent


@pytest.fixture(scope="module")
def noisy(run: Any, folder: Path, owners: list[Path]) -> Path:
    path = folder / "noisy.safetensors"
    given = ["--min-cluster", 3, "--max-share", 0.5, "--clip", 1, "--noise", 0.2]
    done = run("condense", owners[0], "--nodes", KEPT, *given, "-o", path)
    assert done.code == 0, done.err
    assert "about" in done.out
    return path


def refused(run: Any, code: int, words: str, *arguments: object) -> str:
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert "Traceback" not in done.err
    error = json.loads(run(*arguments, "--json").out)["error"]
    assert words in error["message"]
    return error["kind"]


def test_several_are_the_python_function(two_run: Any, two: Path, owners: list[Path], tmp_path: Path) -> None:
    result = two_run.result
    assert {"manifest", "artifacts"} <= set(result)
    expected = plgc.condense_sources(owners[:2], tmp_path / "out", nodes=KEPT, seed=4)
    for artifact, source in zip(result["artifacts"], expected.sources, strict=True):
        assert set(artifact) >= CONTRACT
        path = Path(artifact["artifact"])
        assert path.read_bytes() == source.path.read_bytes()
        condensed = plgc.CondensedGraph.load(path)
        assert (artifact["graph"], artifact["seed"]) == (source.name, condensed.seed)
        assert (artifact["nodes"], artifact["nodes_requested"]) == (condensed.num_nodes, KEPT)
        assert artifact["bytes"] == path.stat().st_size
        assert artifact["seconds"] > 0
        assert artifact["threads"] == 1
        assert condensed.settings["min_cluster"] == 5
        assert condensed.fingerprint is None
    assert (two / MANIFEST).read_bytes() == expected.manifest.read_bytes()


def test_a_late_source_and_a_second_run_as_text(run: Any, two: Path, owners: list[Path], tmp_path: Path) -> None:
    out = Path(shutil.copytree(two, tmp_path / "out"))
    done = run("condense", owners[2], "--nodes", KEPT, "--seed", 4, "-o", out)
    assert done.code == 0
    assert "owner2" in done.out
    assert "owner0" not in done.out
    again = run("condense", *owners, "--nodes", KEPT, "--seed", 4, "-o", out)
    assert again.out.count("was there already") == 3
    seeds = [entry["seed"] for entry in json.loads((out / MANIFEST).read_text())["sources"]]
    assert seeds == [1004, 2004, 3004]


@pytest.mark.parametrize("option", [("--fingerprint", "--no-private"), ("--no-fingerprint",)])
def test_a_replaced_graph_of_the_same_counts_is_made_again(run: Any, tmp_path: Path, option: tuple[str, ...]) -> None:
    """Only its content is another: not the name, nor the numbers of nodes, edges and features."""
    graph = citation_graph(nodes=400, classes=3, features=40, seed=1)
    one, two = (save_npz(graph, tmp_path / f"{name}.npz") for name in ("one", "two"))
    given = ["condense", one, two, "--nodes", 5, "-o", tmp_path / "out", *option, "--json"]
    before = {artifact["graph"]: artifact["sha256"] for artifact in run(*given).result["artifacts"]}
    assert graph.x is not None
    graph.x = graph.x.to_dense().flip(1)
    save_npz(graph, one)
    found = {artifact["graph"]: artifact for artifact in run(*given).result["artifacts"]}
    assert [found[name]["made"] for name in ("one", "two")] == [True, False]
    assert found["one"]["replaced"]
    assert found["one"]["sha256"] != before["one"]
    assert not any(artifact["made"] for artifact in run(*given).result["artifacts"])


def test_parts(run: Any, owners: list[Path], tmp_path: Path) -> None:
    given = ["--parts", 2, "--partition", "metis", "--halo", 1, "--nodes", 15, "--names", "x"]
    result = run("condense", owners[0], *given, "-o", tmp_path / "out", "--json").result
    assert [artifact["graph"] for artifact in result["artifacts"]] == ["x-part1", "x-part2"]
    assert sum(artifact["nodes_requested"] for artifact in result["artifacts"]) == 15
    assert (result["partition"]["how"], result["partition"]["halo"]) == ("metis", 1)
    done = run("condense", owners[0], *given, "-o", tmp_path / "out")
    cut, edges = result["partition"]["edges_cut"], result["partition"]["edges"]
    assert f"x in 2 metis parts, halo of 1 hop(s): {cut} of {edges} edges cut" in done.out
    assert "edges cut" in run("inspect", tmp_path / "out").out


def test_parts_of_one_graph_are_merged_and_owners_are_not(run: Any, owners: list[Path], tmp_path: Path) -> None:
    run("condense", owners[0], "--parts", 2, "--nodes", 15, "-o", tmp_path / "out")
    scored = ["evaluate", tmp_path / "out", "--graph", owners[0], "--shots", 3, "--json"]
    assert run(*scored).result["combine"] == "merged"
    assert run(*scored, "--combine", "heads").result["combine"] == "heads"
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert run("evaluate", *files, *scored[2:]).result["combine"] == "heads"  # alone they do not say what they are of
    widths = [
        run("train", tmp_path / "out", "--graph", owners[0], *more, "-o", tmp_path / f"{len(more)}.st", "--json").result
        for more in ([], ["--combine", "heads"])
    ]
    assert widths[0]["bytes"] < widths[1]["bytes"]


def test_memory_is_that_of_all_processes(run: Any, owners: list[Path], tmp_path: Path) -> None:
    given = ["--nodes", 6, "--engine", "processes", "--workers", 2, "-o", tmp_path / "out", "--json"]
    result = run("condense", *owners[:2], *given).result
    own, peaks = result["peak_driver_bytes"], [artifact["peak_memory_bytes"] for artifact in result["artifacts"]]
    assert min(own, *peaks) > 50e6
    assert result["peak_memory_bytes"] > max(own, *peaks)
    assert result["peak_mapped_bytes"] > 50e6


def test_noisy_parts_tell_no_edges(run: Any, owners: list[Path], tmp_path: Path) -> None:
    given = ["--parts", 2, "--nodes", 12, "--clip", 1, "--noise", 0.1, "-o", tmp_path / "out"]
    done = run("condense", owners[0], *given)
    assert done.code == 0
    for text in (done.out, run("inspect", tmp_path / "out").out):
        assert "owner0 in 2 random parts: the number of cut edges is not published" in text
    partition = run("inspect", tmp_path / "out", "--json").result["partition"]
    assert "edges" not in partition
    assert "edges_cut" not in partition
    assert run("report", tmp_path / "out", "-o", tmp_path / "out.html").code == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "One graph in 2 random parts." in page
    assert "edges were cut" not in page


def test_parts_of_training_edges_predict_links(run: Any, owners: list[Path], tmp_path: Path) -> None:
    given = ["--parts", 2, "--edges", "train", "--nodes", 12, "--shared-seed"]
    result = run("condense", owners[0], *given, "-o", tmp_path, "--json").result
    assert [artifact["seen"]["edges"] for artifact in result["artifacts"]] == ["train", "train"]
    assert [artifact["seed"] for artifact in result["artifacts"]] == [0, 0]
    found = run("evaluate", tmp_path, "--graph", owners[0], "--task", "link", "--combine", "shared-seed", "--json")
    assert found.result["combine"] == "shared-seed"


def test_a_failed_source_is_named_and_the_others_kept(run: Any, owners: list[Path], tmp_path: Path) -> None:
    torn = tmp_path / "torn.npz"
    torn.write_bytes(owners[1].read_bytes()[:300])
    given = ["condense", owners[0], torn, "--nodes", KEPT, "-o", tmp_path / "out"]
    assert refused(run, 1, "torn: ", *given) == "sources-failed"
    [entry] = json.loads((tmp_path / "out" / MANIFEST).read_text())["sources"]
    assert entry["name"] == "owner0"
    assert refused(run, 1, "Did you mean cora", "condense", "corra", owners[0], "--nodes", 9, "-o", tmp_path / "new")


def test_evaluate_and_train_take_folders(run: Any, two: Path, owners: list[Path], tmp_path: Path) -> None:
    given = ["--graph", owners[0], "--labels", 9]
    result = run("evaluate", two, *given, "--json").result
    files = [two / "owner0.safetensors", two / "owner1.safetensors"]
    same = run("evaluate", *files, *given, "--json").result
    assert result["accuracy"] == same["accuracy"]
    assert (result["sources"], result["combine"], result["weights"]) == (2, "heads", None)
    assert result["nodes"] == sum(plgc.CondensedGraph.load(file).num_nodes for file in files)
    other = run("evaluate", two, *given, "--combine", "procrustes", "--weights", "1,3", "--json").result
    assert (other["combine"], other["weights"]) == ("procrustes", [1.0, 3.0])
    model = tmp_path / "model.safetensors"
    trained = run("train", two, "--graph", owners[0], "--shots", 3, "--weights", "1,3", "-o", model, "--json").result
    assert trained["sources"] == 2
    expected = plgc.reconstruct(plgc.load_sources(two), weights=[1, 3])
    graph = plgc.load_graph(owners[0])
    assert plgc.load_model(model).backbone.embed(graph).equal(expected.embed(graph))
    assert "of 2 sources" in run("evaluate", two, "--graph", owners[0]).out


def test_weights_of_the_manifest_count_unless_others_are_given(
    run: Any, two: Path, owners: list[Path], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(two, tmp_path / "out"))
    content = json.loads((out / MANIFEST).read_text())
    content["sources"][0]["weight"] = 4
    (out / MANIFEST).write_text(json.dumps(content))
    given = ["evaluate", out, "--graph", owners[0]]
    assert run(*given, "--json").result["weights"] == [4, 1.0]
    assert run(*given, "--weights", "1,1", "--json").result["weights"] == [1.0, 1.0]


def test_inspect_a_folder(run: Any, two: Path, owners: list[Path]) -> None:
    result = run("inspect", two, "--json").result
    assert [source["name"] for source in result["sources"]] == ["owner0", "owner1"]
    alone = run("inspect", two / "owner1.safetensors", "--json").result
    assert result["sources"][1] == {"name": "owner1", "weight": 1.0, **alone}
    done = run("inspect", two)
    assert alone["sha256"][:12] in done.out
    assert "no synthetic node represents fewer than 5 nodes" in run("inspect", two / "owner1.safetensors").out
    refused(run, 2, "one condensed graph", "inspect", two, "--theory", "--graph", owners[0])


def test_noise_of_one_graph(run: Any, noisy: Path, owners: list[Path]) -> None:
    condensed = plgc.CondensedGraph.load(noisy)
    assert (condensed.settings["min_cluster"], condensed.settings["max_share"]) == (3, 0.5)
    assert (condensed.settings["clip"], condensed.settings["noise"]) == (1.0, 0.2)
    assert "edges" not in condensed.source
    done = run("inspect", noisy)
    assert done.code == 0
    assert "0.2, rows clipped to 1" in done.out
    assert "a rounded or noisy count" in done.out
    assert "ε" not in done.out
    assert run("evaluate", noisy, "--graph", owners[0]).code == 0


def test_a_private_file_is_used_like_any_other(run: Any, owners: list[Path], tmp_path: Path) -> None:
    file, model = tmp_path / "private.safetensors", tmp_path / "model.safetensors"
    told = run("condense", owners[0], "--nodes", KEPT, "--private", "-o", file)
    assert told.code == 0
    assert "about" in told.out
    assert "one node moves a published number by 33 % of its noise, at most" in run("inspect", file).out
    found = run("inspect", file, "--json").result
    assert found["largest_share"] <= 0.3334
    assert found["privacy"]["members"] == "reduced"
    assert run("evaluate", file, "--graph", owners[0]).code == 0
    assert run("train", file, "--graph", owners[0], "-o", model).code == 0
    assert run("predict", model, "--graph", owners[0], "-o", tmp_path / "found.csv").code == 0
    assert run("report", file, "--graph", owners[0], "-o", tmp_path / "report.html").code == 0
    assert "--private" in (tmp_path / "report.html").read_text()


def test_parts_of_one_graph_are_not_private(run: Any, owners: list[Path], two: Path, tmp_path: Path) -> None:
    made = run("condense", owners[0], "--parts", 2, "--nodes", 8, "-o", tmp_path / "parts", "--json").result
    settings = [plgc.CondensedGraph.load(part["artifact"]).settings["private"] for part in made["artifacts"]]
    assert settings == [False, False]
    assert all(plgc.CondensedGraph.load(file).settings["private"] for file in two.glob("*.safetensors"))


def test_the_fingerprint_is_a_choice(run: Any, owners: list[Path], tmp_path: Path) -> None:
    alone = run("condense", owners[0], "--nodes", KEPT, "--no-fingerprint", "-o", tmp_path / "a", "--json").result
    assert plgc.CondensedGraph.load(alone["artifact"]).fingerprint is None
    given = ["condense", *owners[:2], "--nodes", KEPT, "--fingerprint", "-o", tmp_path / "b"]
    refused(run, 1, "turn private off", *given)
    with_it = run(*given, "--no-private", "--json").result
    assert all(plgc.CondensedGraph.load(made["artifact"]).fingerprint for made in with_it["artifacts"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["ONE", "--engine", "serial"], "--engine is for several graphs"),
        (["ONE", "--shared-seed"], "--shared-seed is for several"),
        (["ONE", "--halo", "1"], "--halo is for several"),
        (["ONE", "--parts", "1"], "--parts"),
        (["ONE", "--parts", "2", "--alpha", "1"], "--alpha is for --partition skewed"),
        (["ONE", "TWO", "--parts", "2"], "--parts cuts one graph, 2 were given"),
        (["ONE", "TWO", "--halo", "1"], "--halo is for the parts of one graph"),
        (["ONE", "TWO", "--method", "gcond"], "gcond condenses one graph"),
        (["ONE", "TWO", "--inductive"], "for --parts"),
        (["ONE", "TWO", "--threads", "2"], "--cpus"),
        (["ONE", "TWO", "--engine", "dask"], "dask"),
        (["ONE", "--method", "random", "--min-cluster", "5"], "--min-cluster is for plgc"),
    ],
)
def test_wrong_usage(run: Any, given: list[str], words: str, owners: list[Path], tmp_path: Path) -> None:
    given = [{"ONE": str(owners[0]), "TWO": str(owners[1])}.get(word, word) for word in given]
    assert refused(run, 2, words, "condense", *given, "--nodes", KEPT, "-o", tmp_path / "out") == "usage"
    assert not (tmp_path / "out").exists()


def test_bad_settings(run: Any, owners: list[Path], two: Path, tmp_path: Path) -> None:
    common = ["condense", owners[0], "--nodes", KEPT, "-o", tmp_path / "out"]
    for given, words in (
        (["--noise", 1], "clip is not given"),
        (["--clip", 0], "clip is 0"),
        (["--max-share", 0], "max_share is 0"),
        (["--min-cluster", 100], "lower min_cluster"),
    ):
        assert refused(run, 1, words, *common, *given) == "bad-setting"
        kind = refused(run, 1, words, "condense", owners[0], owners[1], *common[2:], *given)
        assert kind in ("bad-setting", "sources-failed")
    assert refused(run, 1, "the engine is serial", *common, "--parts", 2, "--address", "auto") == "bad-setting"
    for given, words in ((["--weights", "1"], "1 weights for 2"), (["--weights", "1,-1"], "a weight is -1")):
        assert refused(run, 1, words, "evaluate", two, "--graph", owners[0], *given) == "bad-setting"
    assert refused(run, 2, "--weights is 'a,b'", "evaluate", two, "--graph", owners[0], "--weights", "a,b") == "usage"


def test_another_width_names_both(run: Any, two: Path, artifact: Path, owners: list[Path]) -> None:
    words = "owner0 has 40 features per node, small has 100"
    assert refused(run, 1, words, "evaluate", two, artifact, "--graph", owners[0]) == "bad-graph"


def test_choices_are_those_of_the_package() -> None:
    assert tuple(options.Engine) == ENGINES
    assert tuple(options.Partition) == PARTITIONS
    assert tuple(options.Combination) == COMBINATIONS
    assert inputs.MANIFEST == MANIFEST
