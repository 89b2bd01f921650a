"""``plgc evaluate``: condensed files scored on a graph, beside what can be had without them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions
from plgc.cli.models import Files, ModelOptions, check_disk, sources_text
from plgc.cli.options import DiskOptions, Graph, Json, ScoredOn, TaskName, examples, takes, values_of
from plgc.cli.output import seconds, show, size, spread, table, working
from plgc.runtime.errors import SettingError

EXAMPLES = examples(
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
WAYS = {"learned": "our head, its learned part alone", "parts": "our head, X, ÂX and Â²X beside"}


@takes(ModelOptions, GraphOptions, DiskOptions)
def evaluate(
    files: Files,
    graph: Graph,
    on: Annotated[ScoredOn, typer.Option(help="The nodes to score; choose settings on val.")] = ScoredOn.test,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Repeat with N seeds.")] = 1,
    json: Json = False,
    **given: Any,
) -> None:
    """Score condensed files on a graph, beside four controls.

    Every seed rebuilds the backbone, draws the labels (--shots, --labels), fine-tunes and scores. The controls have the
    same head without any file, on: an encoder with random weights, propagated features, raw features (a head that sees
    no edges), and plain parts (the last two together). A method has to beat the best of them. --task link needs a file
    made with --edges train (or --inductive); --task cluster compares k-means groups with the classes.
    """
    options, disk = ModelOptions(**values_of(ModelOptions, given)), DiskOptions(**values_of(DiskOptions, given))
    check_disk(options, disk)
    if options.task == TaskName.cluster and on is ScoredOn.val:
        raise typer.BadParameter("--task cluster groups all nodes: leave --on out")
    condensed, together, data = options.read(files, GraphOptions(graph, **values_of(GraphOptions, given)))
    if options.task == TaskName.link and any(part.seen.derived is not None for part in condensed):
        raise SettingError(
            "the features are derived from all edges, those to be predicted too: nothing would be predicted"
        )
    from plgc.evaluation.over_seeds import evaluate as evaluate_files

    with working() as progress:
        progress(f"scoring on {data.name}", 0, seeds)
        result = evaluate_files(
            condensed,
            data,
            task=options.task,
            seeds=seeds,
            shots=options.shots,
            labels=options.labels,
            on=str(on),
            kind=options.backbone,
            split=options.split,
            device=options.device,
            progress=progress,
            **together,
            memory=disk.memory,
            scratch=disk.scratch,
        )
    show(result, _evaluate_text(result), json)


def _evaluate_text(result: dict[str, Any]) -> str:
    metrics = [name for name in METRICS if name in result]
    rows: list[list[str]] = [["", *(METRICS[name][0] for name in metrics)]]
    entries: dict[str, dict[str, Any]] = {result["method"]: result}
    entries |= {words: found for way, words in WAYS.items() if (found := result.get(way))}
    entries |= {name.replace("_", " "): scores for name, scores in result["controls"].items()}
    for name, scores in entries.items():
        rows.append([name, *(spread(scores.get(metric), METRICS[metric][1]) for metric in metrics)])
    heads = {"node": f"{_labels_text(result)}; {result['on']} nodes", "link": f"links, {result['on']} edges"}
    setting = (
        f"{result['graph']}: {result['nodes']} synthetic nodes{sources_text(result)}, {result['backbone']} backbone, "
        f"{heads.get(result['task'], 'clusters of all nodes')}, {result['seeds']} seed(s)"
        f"{', inductive' if result['inductive'] else ''}; {result['split']}"
    )
    cost = f"condensed: {size(result['bytes'])}; {seconds(result['seconds'])} in all"
    words = (result.get("head") or {}).get("words")
    found = f"the head found: {words}\n" if words else ""
    return f"{setting}\n\n{table(rows)}\n\n{_claim_text(result)}\n{found}{cost}"


def _claim_text(result: dict[str, Any]) -> str:
    """The difference to the best control, and what it rests on."""
    from plgc.evaluation.claims import Claim

    best = max(result["controls"], key=lambda name: result["controls"][name]["mean"])
    values = {name: value for name, value in result["claims"][best].items() if name != "verdict"}
    metric = {"node": "accuracy", "link": "auroc", "cluster": "nmi"}[result["task"]]
    return f"against the best control, {best.replace('_', ' ')}: {Claim(**values).text(METRICS[metric][1])}"


def _labels_text(result: dict[str, Any]) -> str:
    if result["shots"] is not None:
        return f"{result['shots']} label(s) per class"
    return f"{result['labels']} labels" if result["labels"] is not None else "all training labels"
