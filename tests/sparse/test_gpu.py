"""What a GPU computes: the same as a CPU within rounding, the same every time, and without waiting where it need not.

These tests need a GPU and are skipped without one. On a machine with one: ``pytest tests/sparse/test_gpu.py``.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.cli import main
from plgc.evaluation.theory import diagnose
from plgc.graphs import citation_graph, save_npz
from plgc.method import alternate, stage_one
from plgc.method import sinkhorn as sinkhorn_module
from plgc.method.settings import Branch
from plgc.method.sinkhorn import sinkhorn
from plgc.method.stage_one import embed, start_stage_one, train_epoch
from plgc.runtime import checkpoint
from plgc.sparse import gpu_product
from plgc.sparse.adjacency import build_adjacency, drop_edges, propagate, propagate_rows
from plgc.sparse.inputs import prepare
from plgc.sparse.product import multiply

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
PAIR = (
    Branch(hidden=128, width=128, edge_drop=0.5, feature_mask=0.3),
    Branch(hidden=128, width=128, edge_drop=0.5, feature_mask=0.5),
)
AGREEMENT = 1e-2  # of X' and Ỹ made on a CPU and on a GPU, relative to their size: stated in docs/scale.md


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=1500, classes=5, features=300, seed=3)


def random_csr(rows: int, columns: int, density: float, long_row: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows + columns)
    dense = torch.randn(rows, columns, generator=generator)
    dense *= torch.rand(rows, columns, generator=generator) < density
    if long_row is not None:
        dense[long_row] = 1.0
    return dense.to_sparse_csr()


@pytest.mark.parametrize("width", [1, 3, 64, 128, 200, 256, 513])
@pytest.mark.parametrize(("rows", "columns", "density"), [(1, 1, 1.0), (70, 50, 0.1), (33, 4000, 0.5), (500, 20, 0.01)])
def test_the_product_is_that_of_dense_matrices(rows: int, columns: int, density: float, width: int) -> None:
    assert gpu_product.available()
    matrix = random_csr(rows, columns, density, long_row=rows // 2)
    dense = torch.randn(columns, width, generator=torch.Generator().manual_seed(width))
    wanted = matrix.to_dense().double() @ dense.double()
    found = multiply(matrix.cuda(), dense.cuda())
    torch.testing.assert_close(found.double().cpu(), wanted, rtol=1e-5, atol=1e-4)
    half = multiply(matrix.cuda(), dense.cuda().bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double().cpu(), wanted, rtol=2e-2, atol=2e-2 * float(wanted.abs().max()))
    assert torch.equal(found, multiply(matrix.cuda(), dense.cuda()))


def test_propagation_and_its_gradient_agree_with_the_cpu(graph: Data) -> None:
    assert graph.edge_index is not None
    nodes = graph.num_nodes or 0
    weight = torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(0))
    pairs = graph.edge_index.sort(0).values
    found = []
    for device in ("cpu", "cuda"):
        edges = weight[pairs[0], pairs[1]].to(device)
        adjacency = build_adjacency(graph.edge_index.to(device), nodes, edges)
        view = drop_edges(adjacency, 0.4, torch.Generator().manual_seed(1))
        hidden = torch.randn(nodes, 40, generator=torch.Generator().manual_seed(2)).to(device)
        hidden.requires_grad_()
        result = propagate(view, hidden, 2)
        few = propagate_rows(view, hidden, torch.arange(1, nodes, 7, device=device))
        torch.testing.assert_close(few, propagate(view, hidden)[1::7], rtol=1e-4, atol=1e-5)
        (result.square().sum() + few.pow(3).sum()).backward()
        assert hidden.grad is not None
        found.append((result.detach().cpu(), hidden.grad.cpu()))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sinkhorn_looks_less_often_and_finds_the_same() -> None:
    scores = torch.nn.functional.normalize(torch.randn(3000, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    scores = scores @ scores[:40].t()
    for tolerance in (0.3, 0.05, 1e-3):
        here, there = (sinkhorn(scores.to(device), tolerance=tolerance) for device in ("cpu", "cuda"))
        assert here.converged
        assert there.converged
        torch.testing.assert_close(here.plan, there.plan.cpu(), rtol=1e-3, atol=1e-5)


def test_an_epoch_agrees_with_the_cpu(graph: Data) -> None:
    settings = plgc.method.settings.preset("default").pseudo_labels
    found = []
    for device in ("cpu", "cuda"):
        inputs = prepare(graph, "l1", device)
        stage = start_stage_one(inputs, 20, PAIR, settings, 0)
        losses = [train_epoch(stage, inputs) for _ in range(3)]
        found.append((torch.tensor(losses), embed(stage, inputs).cpu()))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-4)
    assert float((found[0][1] - found[1][1]).norm() / found[0][1].norm()) < AGREEMENT


def test_condensing_agrees_with_the_cpu(graph: Data) -> None:
    """With soft targets; the paper's, rounded to one-hot, turn a last digit into another cluster."""
    here, there = (plgc.condense(graph, nodes=30, seed=1, device=device) for device in ("cpu", "cuda"))
    assert here.chosen["branches"] == there.chosen["branches"]
    for name in ("features", "pseudo_labels"):
        ours, theirs = getattr(here, name), getattr(there, name)
        assert float((ours - theirs).norm() / ours.norm()) < AGREEMENT


@pytest.mark.parametrize("views", ["drawn here", "drawn there"])
@pytest.mark.parametrize(
    "changes", [{}, {"preset": "paper"}, {"memory": "596MiB"}, {"precision": "bfloat16"}, {"min_cluster": 5}]
)
def test_the_same_seed_gives_the_same_bytes(
    graph: Data, changes: dict[str, str], views: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if views == "drawn there":
        monkeypatch.setattr(stage_one, "DRAWN_ON_CPU", 0)
    written = []
    for attempt in range(2):
        condensed = plgc.condense(graph, nodes=30, seed=1, device="cuda", **changes)  # pyright: ignore
        assert (condensed.chosen.get("batch_nodes") is not None) == ("memory" in changes)
        written.append(condensed.save(tmp_path / str(attempt)).read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("views", ["drawn here", "drawn there"])
def test_a_run_that_was_stopped_goes_on(
    graph: Data, views: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARE", 0)
    if views == "drawn there":
        monkeypatch.setattr(stage_one, "DRAWN_ON_CPU", 0)
    whole = plgc.condense(graph, nodes=30, seed=1, device="cuda").save(tmp_path / "whole").read_bytes()
    done = 0

    def stopping(*arguments: object) -> float:
        nonlocal done
        done += 1
        if done == 55:
            raise KeyboardInterrupt
        return train_epoch(*arguments)  # pyright: ignore

    with monkeypatch.context() as patch:
        patch.setattr(alternate, "train_epoch", stopping)
        with pytest.raises(KeyboardInterrupt):
            plgc.condense(graph, nodes=30, seed=1, device="cuda", checkpoint=tmp_path / "kept")
    said: list[str] = []
    rest = plgc.condense(
        graph,
        nodes=30,
        seed=1,
        device="cuda",
        checkpoint=tmp_path / "kept",
        progress=lambda text, *_: said.append(text),
    )
    assert any("resuming after epoch 54" in text for text in said)
    assert rest.save(tmp_path / "rest").read_bytes() == whole


def test_learning_from_the_file_is_the_same_every_time(graph: Data) -> None:
    condensed = plgc.condense(graph, nodes=30, seed=1)
    for kind in ("gcn", "sage", "gin", "sgc"):
        scores = []
        for _ in range(2):
            backbone = plgc.reconstruct(condensed, seed=0, device="cuda", kind=kind)
            scores.append(backbone.embed(graph).cpu())
        assert torch.equal(*scores), kind


@pytest.mark.parametrize("settings", [{"swap": 1.0}, {"swap": 1.0, "hard_targets": True, "decorrelation": 0.0}, {}])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_played_epoch_is_that_of_single_kernels(
    graph: Data, settings: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = prepare(graph, "l1", "cuda")
    rules = plgc.method.settings.PseudoLabelSettings(**settings, precision=precision)
    found = []
    for played in (True, False):
        if not played:
            monkeypatch.setattr(stage_one, "_replay", lambda *_: None)
        stage = start_stage_one(inputs, 20, PAIR, rules, 0)
        losses = [train_epoch(stage, inputs) for _ in range(4)]
        assert (stage.recording is not None) == played
        found.append((torch.tensor(losses), embed(stage, inputs)))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_losses_of_a_sample_agree_with_the_cpu(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_one, "SAMPLE", 400)  # every fourth node of 1,500
    found = []
    for device in ("cpu", "cuda"):
        inputs = prepare(graph, "l1", device)
        stage = start_stage_one(inputs, 20, PAIR, plgc.method.settings.PseudoLabelSettings(swap=1.0), 0)
        found.append((torch.tensor([train_epoch(stage, inputs) for _ in range(5)]), embed(stage, inputs).cpu()))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-3, atol=1e-3)
    assert float((found[0][1] - found[1][1]).norm() / found[0][1].norm()) < AGREEMENT


def test_what_was_recorded_is_given_back_at_once(graph: Data) -> None:
    plgc.condense(graph, nodes=30, seed=1, device="cuda")
    gc.collect()
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        plgc.condense(graph, nodes=30, seed=1, device="cuda")
        assert torch.cuda.memory_allocated() - before < 1 << 20
    finally:
        gc.enable()


def test_numbers_that_a_recording_is_not_for(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, rules = prepare(graph, "l1", "cuda"), plgc.method.settings.PseudoLabelSettings(swap=1.0)
    found = []
    for reach in (sinkhorn_module.KERNEL_RANGE, -1.0):
        monkeypatch.setattr(sinkhorn_module, "KERNEL_RANGE", reach)
        stage = start_stage_one(inputs, 20, PAIR, rules, 0)
        losses = [train_epoch(stage, inputs) for _ in range(3)]
        found.append((torch.tensor(losses), torch.stack([p for p in stage.potentials if p is not None])))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["sage", "gin", "gat", "sgc"])
def test_encoders_of_other_kinds_are_played_too(graph: Data, kind: str) -> None:
    branch = plgc.method.settings.Branch(kind=kind, hidden=32, width=32)
    found = []
    for device in ("cpu", "cuda"):
        inputs = prepare(graph, "l1", device)
        stage = start_stage_one(inputs, 20, (branch,), plgc.method.settings.PseudoLabelSettings(swap=1.0), 0)
        found.append(torch.tensor([train_epoch(stage, inputs) for _ in range(3)]))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


def test_training_waits_for_its_loss_alone(graph: Data) -> None:
    inputs = prepare(graph, "l1", "cuda")
    settings = plgc.method.settings.preset("default").pseudo_labels
    stage = start_stage_one(inputs, 20, PAIR, settings, 0)
    train_epoch(stage, inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as seen:
        train_epoch(stage, inputs)
    counts = {event.key: event.count for event in seen.key_averages()}
    assert counts.get("aten::nonzero", 0) == 0
    assert counts.get("aten::_local_scalar_dense", 0) <= 3  # whether all is finite, the loss, and one number here


@pytest.fixture(scope="module")
def file(graph: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph as a file, for the commands."""
    return save_npz(graph, tmp_path_factory.mktemp("gpu") / "graph.npz")


def command(*words: object) -> None:
    """A command that goes well."""
    assert main([*map(str, words), "-q"]) == 0


def predicted(model: Path, file: Path, device: str, *words: object) -> tuple[list[list[str]], torch.Tensor]:
    """What a model predicts on a device: the rows of its answers without the probabilities, and these."""
    out = model.with_name(f"{device}.csv")
    command("predict", model, "--graph", file, *words, "--device", device, "-o", out)
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    return [row[:-1] for row in rows], torch.tensor([float(row[-1]) for row in rows])


@pytest.mark.parametrize("task", ["node", "link"])
def test_a_model_trained_there_answers_the_same_here(task: str, graph: Data, file: Path, tmp_path: Path) -> None:
    made = plgc.condense(graph, nodes=30, seed=1).save(tmp_path / "condensed.safetensors")
    models = {device: tmp_path / f"{device}.safetensors" for device in ("cpu", "cuda")}
    for device, model in models.items():
        command("train", made, "--graph", file, "--task", task, "--device", device, "-o", model)
    sizes = {model.stat().st_size for model in models.values()}
    assert max(sizes) - min(sizes) < 200  # of links, the description holds scores of as many digits as they have
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("".join(f"{node},{(7 * node + 1) % 1500}\n" for node in range(0, 1500, 3)))
    words = ["--pairs", pairs] if task == "link" else []
    here, there = (predicted(models["cuda"], file, device, *words) for device in ("cpu", "cuda"))
    assert here[0] == there[0]
    torch.testing.assert_close(here[1], there[1], rtol=0, atol=1e-4)


def test_a_model_is_loaded_where_it_is_asked_for(graph: Data, tmp_path: Path) -> None:
    backbone = plgc.reconstruct(plgc.condense(graph, nodes=30, seed=1), device="cuda")
    model = plgc.finetune(backbone, plgc.load_graph(graph), shots=3)
    loaded = plgc.load_model(model.save(tmp_path / "model.safetensors"), device="cuda")
    assert isinstance(loaded, plgc.NodeModel)
    assert {tensor.device.type for tensor in (*loaded.backbone.parameters(), loaded.head.weight)} == {"cuda"}
    found = loaded.predict_proba(graph)
    assert not found.is_cuda
    assert torch.equal(found, model.predict_proba(graph))


@pytest.mark.parametrize("given", [["--edges", "train"], ["--method", "coarsening"], ["--method", "ctgc"]])
def test_a_report_is_made_there(given: list[str], file: Path, tmp_path: Path) -> None:
    """Of files with pseudo-labels (and links to predict), with labels and edges, with centroids and edges."""
    made = tmp_path / "condensed.safetensors"
    command("condense", file, "--nodes", 30, *given, "--device", "cuda", "-o", made)
    command("report", made, "--graph", file, "--seeds", 1, "--device", "cuda", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What does it look like?" in page
    assert ("AUROC of test edges" in page) == ("--edges" in given)


def test_several_files_are_reported_on_there(graph: Data, file: Path, tmp_path: Path) -> None:
    made = [plgc.condense(graph, nodes=30, seed=seed).save(tmp_path / str(seed)) for seed in range(2)]
    command("report", *made, "--graph", file, "--seeds", 1, "--device", "cuda", "-o", tmp_path / "report.html")
    assert "all 2, by heads" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_bounds_agree_with_the_cpu(graph: Data) -> None:
    condensed = plgc.condense(graph, nodes=30, seed=1)
    here, there = (diagnose(condensed, graph, device=device) for device in ("cpu", "cuda"))
    assert there.sigma == pytest.approx(here.sigma, rel=AGREEMENT)
    assert there.gap == pytest.approx(here.gap, rel=AGREEMENT)


def test_the_demo_runs_there(file: Path, tmp_path: Path) -> None:
    command("demo", "--graph", file, "--device", "cuda", "-o", tmp_path / "demo")
    assert (tmp_path / "demo" / "condensed.safetensors").is_file()
