"""The whole method on one graph: condense, save, open again, rebuild, fine-tune on few labels, compare, draw.

Six ways to classify nodes are compared, with a few labels and with all of them: a GCN trained end to end on the whole
graph, a backbone rebuilt from the condensed file, and four controls that have learned nothing, with the same head as
ours: :data:`plgc.evaluation.over_seeds.CONTROLS`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.demo.figure import demo_figure
from plgc.downstream.backbone import Backbone, reconstruct
from plgc.downstream.models import finetune
from plgc.evaluation.over_seeds import CONTROLS, evaluate, summarize
from plgc.evaluation.scoring import train_whole_graph
from plgc.graphs import load_graph, num_classes
from plgc.graphs.formats.npz import npz_bytes
from plgc.method.condense import condense
from plgc.runtime.errors import MissingExtraError
from plgc.runtime.files import check_writable
from plgc.runtime.progress import Progress, nested, silent

RATIO = 0.026
STEPS = 5  # condense; few and all labels, ours and the whole graph's
WHOLE, OURS = "whole graph", "plgc"
NAMES = {control: control.replace("_", " ") for control in CONTROLS}  # as the table has them


def run_demo(
    graph: str | os.PathLike[str] | Data = "demo",
    output: str | os.PathLike[str] = "demo",
    *,
    nodes: int | None = None,
    shots: int = 3,
    seeds: int = 3,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the demo and leave ``condensed.safetensors`` and ``figure.png`` in a folder.

    Args:
        graph: anything :func:`plgc.load_graph` takes, with labels; by default the graph that the package makes.
        output: the folder; it is made where it is missing.
        nodes: K, the synthetic nodes; by default 2.6 % of the graph's, and no fewer than 2.
        shots: labels per class in the few-label comparison.
        seeds: label draws, rebuilds and initialisations to average over.
        seed: of the condensation.
        device: where to compute, such as ``cpu`` or ``cuda``.
        progress: called as ``progress(message, done, total)``.

    Returns:
        Plain values: ``rows`` (one a method: ``method``, ``few`` and ``all`` with mean, std and values of the test
        accuracy, ``nodes``, ``bytes``, ``seconds``), ``summary`` (two sentences), ``artifact``, ``figure`` (None
        where matplotlib is missing; then ``figure_note`` says so), counts and times.

    Raises:
        LabelError: the graph has no labels to compare with.
    """
    start = time.perf_counter()
    path = Path(output) / "condensed.safetensors"
    check_writable(path)
    data = load_graph(graph, notice=False)
    num_classes(data)  # fail before condensing, not after

    total = int(data.num_nodes or 0)
    count = max(2, round(RATIO * total)) if nodes is None else nodes
    inner = nested(progress, "condense", 0, STEPS)
    condense(data, nodes=count, seed=seed, device=device, progress=inner).save(path)
    condensed = CondensedGraph.load(path)  # from here on, only what is in the file
    backbone = reconstruct(condensed, seed=seed, device=device)
    finetune(backbone, data, shots=shots, seed=seed)
    own_seconds = time.perf_counter() - start

    few = _compare(condensed, data, shots, seeds, device, progress)
    everything = _compare(condensed, data, None, seeds, device, progress)
    costs = {
        WHOLE: {"nodes": total, "bytes": npz_bytes(data), "seconds": few.pop("seconds")},
        OURS: {"nodes": condensed.num_nodes, "bytes": path.stat().st_size, "seconds": own_seconds},
    }
    nothing = {"nodes": None, "bytes": None, "seconds": None}
    rows = [
        {"method": name, "few": few[name], "all": everything[name], **costs.get(name, nothing)}
        for name in (WHOLE, OURS, *NAMES.values())
    ]
    return {
        "graph": data.name,
        "split": data.split_origin,
        "nodes": condensed.num_nodes,
        "artifact": str(path),
        "shots": shots,
        "seeds": seeds,
        "train_labels": int((data["train_mask"] & (data["y"] >= 0)).sum()),
        "rows": rows,
        "summary": summary(rows, shots),
        **draw_figure(backbone, condensed, data, rows, shots, Path(output) / "figure.png"),
        "seconds": time.perf_counter() - start,
    }


def summary(rows: list[dict[str, Any]], shots: int) -> str:
    """What the table shows, in two sentences that hold whichever way the comparison comes out."""
    by_name = {row["method"]: row for row in rows}
    whole, ours = by_name[WHOLE], by_name[OURS]
    sentences = []
    for key, labels in (("few", f"{shots} labels per class"), ("all", "all training labels")):
        control = max(NAMES.values(), key=lambda name: by_name[name][key]["mean"])
        sentences.append(
            f"With {labels}, the backbone rebuilt from {ours['nodes']} synthetic nodes reaches "
            f"{ours[key]['mean']:.1f} %, training on all {whole['nodes']} nodes {whole[key]['mean']:.1f} %, "
            f"and the best control ({control}) {by_name[control][key]['mean']:.1f} %."
        )
    return "\n".join(sentences)


def _compare(
    condensed: CondensedGraph, data: Data, few: int | None, seeds: int, device: str, progress: Progress | None
) -> dict[str, Any]:
    """Test accuracy of every method with ``few`` labels per class, or all; ``seconds`` of one whole-graph training."""
    labels, step = ("all labels", 3) if few is None else (f"{few} labels per class", 1)
    inner = nested(progress, f"{labels}, rebuilt and controls", step, STEPS)
    ours = evaluate([condensed], data, seeds=seeds, shots=few, device=device, progress=inner)
    report = nested(progress, f"{labels}, whole graph", step + 1, STEPS) or silent
    runs = []
    for seed in range(seeds):
        report(f"seed {seed}", seed, seeds)
        runs.append(train_whole_graph(data, shots=few, seed=seed, device=device))
    whole = summarize(runs)
    controls = {name: ours["controls"][key]["accuracy"] for key, name in NAMES.items()}
    return {WHOLE: whole["accuracy"], OURS: ours["accuracy"], **controls, "seconds": whole["seconds"]["mean"]}


def draw_figure(
    backbone: Backbone, condensed: CondensedGraph, data: Data, rows: list[dict[str, Any]], shots: int, path: Path
) -> dict[str, Any]:
    """Draw the figure; without matplotlib the demo goes on and says what is missing."""
    with torch.no_grad():
        embedding, synthetic = backbone.embed(data), backbone.embed_condensed(condensed)
    bars = {row["method"]: (row["few"], row["all"]) for row in rows}
    groups = (f"{shots} labels per class", "all training labels")
    try:
        demo_figure(embedding, synthetic, condensed.counts, data["y"], bars, groups, path)
    except MissingExtraError as error:
        return {"figure": None, "figure_note": f"The figure was left out: {error}"}
    return {"figure": str(path), "figure_note": None}
