"""The measurements of ``make bench`` run, on a graph of a thousand nodes; what they measure is not looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bench
from bench_child import run_child
from bench_propagation import measure_propagation
from bench_training import measure_training

GRAPH = "generated:0.006"


def test_propagation_is_measured_beside_copies_and_gcnconv() -> None:
    found = measure_propagation(GRAPH, "cpu", repeats=1)
    assert (found["nodes"], found["width"]) == (1016, 128)
    for order in ("own_order", "local_order"):
        moved = found["gather_bandwidth"][order] * found["forward_seconds"][order]
        assert moved == pytest.approx(512 * (found["entries"] + 2 * found["nodes"]))
        assert found["share_of_copy"][order] == found["gather_bandwidth"][order] / found["copy_bandwidth"]
        assert found["gcnconv_over_ours"][order] == found["gcnconv_seconds"] / found["layer_seconds"][order]


def test_training_is_extrapolated_and_says_so() -> None:
    found = measure_training(GRAPH, "cpu", timed=2)
    assert found["seconds_extrapolated"] == 500 * found["epoch_seconds"]
    assert (found["timed_epochs"], found["epochs"]) == (2, 500)


@pytest.mark.parametrize("power", [1.07, 0.6])
def test_growth_is_fitted_recorded_and_projected_at_least_in_proportion(
    power: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(task: str, limit: float | None = None, **arguments: object) -> dict[str, float]:
        assert task == "condensing"
        size = 1e6 * float(str(arguments["graph"]).partition(":")[2])
        return {"nodes": size / 4, "entries": 3 * size / 4, "seconds": size**power, "peak_memory_bytes": size**0.5}

    monkeypatch.setattr(bench, "run_child", pretend)
    out = tmp_path / "results" / "bench.jsonl"
    sizes = bench.Plan("g", 1, "g", 9, 1, "demo", 9, 1.0, (0.01, 0.02, 0.04, 0.08), 9, 0.01)
    bench.Bench(sizes, "cpu", True, out, tmp_path).growth()
    record = json.loads(out.read_text())
    assert record["exponents"] == {"seconds": pytest.approx(power), "peak_memory_bytes": pytest.approx(0.5)}
    times = sum(bench.LARGER["ogbn-products"]) / 80_000
    assert record["projected_seconds"]["ogbn-products"] == pytest.approx(80_000**power * times ** max(1, power))
    assert {"commit", "machine", "threads", "quick"} <= set(record)


def test_a_measurement_that_takes_too_long_is_reported_as_such() -> None:
    assert run_child("training", 0.05, graph=GRAPH, device="cpu", timed=1) == {"over_limit": 0.05}
