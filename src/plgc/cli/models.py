"""``plgc train`` and ``plgc evaluate``: from condensed files to a model, and what it is worth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.graph import Named, check_features
from plgc.cli.inputs import check_not_input, source_files
from plgc.cli.messages import Quiet, Verbose, notice, working
from plgc.cli.options import (
    Backbone,
    Column,
    Combine,
    Device,
    Features,
    FeaturesSeed,
    Files,
    Graph,
    Json,
    Kind,
    Labels,
    NodesTable,
    Part,
    Seed,
    Shots,
    Split,
    Standardize,
    Task,
    Weights,
    at_most_one,
    check_device,
    examples,
    parse_weights,
)
from plgc.cli.output import facts, seconds, show, size, spread, table
from plgc.runtime.errors import SettingError
from plgc.runtime.files import check_writable

if TYPE_CHECKING:
    from plgc.artifact.condensed import CondensedGraph

TRAIN_EXAMPLES = examples(
    "plgc train cora.safetensors --graph cora --shots 3 -o model.safetensors",
    "plgc train mine.safetensors --graph edges.csv --nodes-table nodes.csv -o model.safetensors",
    "plgc train cora.safetensors --graph cora --task link -o links.safetensors",
)
EVALUATE_EXAMPLES = examples(
    "plgc evaluate cora.safetensors --graph cora --seeds 10",
    "plgc evaluate mine.safetensors --graph edges.csv --nodes-table nodes.csv --shots 3",
    "plgc evaluate trio/ --graph citation_dblpv7 --labels 25 --combine heads",
)
METRICS = {  # JSON name: label, digits
    "accuracy": ("accuracy", 1),
    "macro_f1": ("macro-F1", 1),
    "smoothed_accuracy": ("accuracy, smoothed", 1),
    "auroc": ("AUROC", 3),
    "ap": ("average precision", 3),
    "nmi": ("NMI", 3),
    "ari": ("ARI", 3),
}


def train(
    files: Files,
    graph: Graph,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")],
    task: Annotated[Task, typer.Option(help="What to fine-tune for: node or link.")] = Task.node,
    shots: Shots = None,
    labels: Labels = None,
    combine: Combine = None,
    weights: Weights = None,
    backbone: Backbone = Kind.gcn,
    split: Split = 0,
    seed: Seed = 0,
    nodes_table: NodesTable = None,
    column: Column = None,
    standardize: Standardize = False,
    features: Features = None,
    features_seed: FeaturesSeed = None,
    device: Device = "cpu",
    json: Json = False,
    _verbose: Verbose = False,
    _quiet: Quiet = False,
) -> None:
    """Make a model: rebuild a backbone, fine-tune a head.

    The backbone comes from the condensed files, one per source, and stays as it is. The head learns classes from the
    graph's training labels or, with --task link, what joins nodes from its edges.
    """
    at_most_one(shots=shots, labels=labels)
    if task is Task.cluster:
        raise typer.BadParameter("--task cluster has nothing to train: use 'plgc evaluate --task cluster'")
    if task is Task.link and (shots is not None or labels is not None):
        raise typer.BadParameter("--shots and --labels are for --task node, not link")
    shares = parse_weights(weights)
    named = Named(graph, nodes_table, column, standardize, features, features_seed)
    named.check()
    check_not_input([output], [*source_files(files), *named.files()])
    check_writable(output)
    check_device(device)
    import plgc
    from plgc.evaluation.over_seeds import common_seen, graph_for
    from plgc.graphs.derive import derived_of

    start = time.perf_counter()
    condensed, shares = _load_all(files, shares)
    opened = named.open()
    check_features(condensed, opened)
    data = graph_for(opened, common_seen(condensed), split, seed)
    rebuilt = plgc.reconstruct(
        condensed, kind=backbone.value, seed=seed, device=device, combine=combine, weights=shares
    )
    result: dict[str, Any] = {
        "model": str(output),
        "task": task.value,
        "graph": data.name,
        "nodes": sum(part.num_nodes for part in condensed),
        "sources": len(condensed),
        "backbone": backbone.value,
        "split": data.split_origin,
        "shots": shots,
        "labels": labels,
        "seed": seed,
        "val": None,
    }
    if task is Task.link:
        if derived_of(data) is not None:
            notice("the features are derived from all edges, those kept apart for validation too: its AUROC flatters")
        model = plgc.finetune(rebuilt, data, task="link", seed=seed)
        result["val"] = {"auroc": model.head.validation["kept"]}
        learned, found = f"the edges of {data.name}", f"AUROC {result['val']['auroc']:.3f} on a tenth of its edges"
    else:
        model = plgc.finetune(rebuilt, data, shots=shots, labels=labels, seed=seed)
        learned, found = f"{data.name}, {_labels_text(result)}; {data.split_origin}", None
        if bool(data.val_mask.any()):
            result["val"] = model.evaluate(data, on="val")
            found = f"accuracy {result['val']['accuracy']:.1f} %"
    model.save(output)
    result |= {"seconds": time.perf_counter() - start, "bytes": output.stat().st_size}
    pairs = {
        "model": f"{output}, {size(result['bytes'])}",
        "rebuilt from": f"{result['nodes']} synthetic nodes{_sources_text(result)}, {backbone.value} backbone",
        "fine-tuned on": learned,
        "time": seconds(result["seconds"]),
    }
    show(result, facts(pairs | ({"validation": found} if found else {})), json)


def evaluate(
    files: Files,
    graph: Graph,
    task: Annotated[Task, typer.Option(help="What to fine-tune for.")] = Task.node,
    shots: Shots = None,
    labels: Labels = None,
    on: Annotated[Part, typer.Option(help="The nodes to score; choose settings on val.")] = Part.test,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Repeat with N seeds.")] = 1,
    combine: Combine = None,
    weights: Weights = None,
    backbone: Backbone = Kind.gcn,
    split: Split = 0,
    nodes_table: NodesTable = None,
    column: Column = None,
    standardize: Standardize = False,
    features: Features = None,
    features_seed: FeaturesSeed = None,
    device: Device = "cpu",
    json: Json = False,
    _verbose: Verbose = False,
    _quiet: Quiet = False,
) -> None:
    """Score condensed files on a graph, beside two controls.

    Every seed rebuilds the backbone, draws the labels (--shots, --labels), fine-tunes and scores. The controls have the
    same head on propagated features and on an encoder with random weights: a method has to beat both. --task link needs
    a file made with --edges train (or --inductive); --task cluster compares k-means groups with the classes.
    """
    at_most_one(shots=shots, labels=labels)
    if task is not Task.node and (shots is not None or labels is not None):
        raise typer.BadParameter(f"--shots and --labels are for --task node, not {task.value}")
    if task is Task.cluster and on is Part.val:
        raise typer.BadParameter("--task cluster groups all nodes: leave --on out")
    shares = parse_weights(weights)
    named = Named(graph, nodes_table, column, standardize, features, features_seed)
    named.check()
    check_device(device)
    from plgc.evaluation.over_seeds import evaluate as evaluate_files

    condensed, shares = _load_all(files, shares)
    data = named.open()
    check_features(condensed, data)
    if task is Task.link and any(part.seen.derived is not None for part in condensed):
        raise SettingError(
            "the features are derived from all edges, those to be predicted too: nothing would be predicted"
        )
    with working() as progress:
        progress(f"scoring on {data.name}", 0, seeds)
        result = evaluate_files(
            condensed,
            data,
            task=task.value,
            seeds=seeds,
            shots=shots,
            labels=labels,
            on=on.value,
            kind=backbone.value,
            split=split,
            device=device,
            progress=progress,
            combine=combine,
            weights=shares,
        )
    show(result, _evaluate_text(result), json)


def _evaluate_text(result: dict[str, Any]) -> str:
    metrics = [name for name in METRICS if name in result]
    rows: list[list[str]] = [["", *(METRICS[name][0] for name in metrics)]]
    entries: dict[str, dict[str, Any]] = {result["method"]: result}
    entries |= {name.replace("_", " "): scores for name, scores in result["controls"].items()}
    for name, scores in entries.items():
        rows.append([name, *(spread(scores.get(metric), METRICS[metric][1]) for metric in metrics)])
    heads = {"node": f"{_labels_text(result)}; {result['on']} nodes", "link": f"links, {result['on']} edges"}
    setting = (
        f"{result['graph']}: {result['nodes']} synthetic nodes{_sources_text(result)}, {result['backbone']} backbone, "
        f"{heads.get(result['task'], 'clusters of all nodes')}, {result['seeds']} seed(s)"
        f"{', inductive' if result['inductive'] else ''}"
    )
    cost = f"condensed: {size(result['bytes'])}; {seconds(result['seconds'])} in all"
    return f"{setting}\n\n{table(rows)}\n\n{cost}"


def _load_all(files: list[Path], weights: list[float] | None) -> tuple[list[CondensedGraph], list[float] | None]:
    """Everything in the files and folders, and the weights: those given, else the manifests' where they differ."""
    from plgc.sources import open_sources

    opened = open_sources(files)
    listed = [source.weight for source in opened]
    if weights is None and len(set(listed)) > 1:
        weights = listed
    return [source.condensed for source in opened], weights


def _sources_text(result: dict[str, Any]) -> str:
    return f" of {result['sources']} sources" if result["sources"] > 1 else ""


def _labels_text(result: dict[str, Any]) -> str:
    if result["shots"] is not None:
        return f"{result['shots']} label(s) per class"
    return f"{result['labels']} labels" if result["labels"] is not None else "all training labels"
