"""``plgc train`` and ``plgc evaluate``: from condensed files to a model, and to its scores."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_features, shared_preprocessing, source_files
from plgc.cli.options import (
    Backbone,
    Combination,
    Device,
    DiskOptions,
    Graph,
    Json,
    Kind,
    ScoredOn,
    Seed,
    Shots,
    Split,
    TaskName,
    at_most_one,
    check_device,
    examples,
    takes,
    values_of,
)
from plgc.cli.output import facts, notice, seconds, show, size, spread, table, working
from plgc.cli.written import Force, check_output
from plgc.runtime.errors import SettingError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.downstream.backbone import Backbone as BackboneModel
    from plgc.downstream.models import NodeModel
    from plgc.runtime.progress import Progress
    from plgc.sparse.stored_inputs import StoredGraphs

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Files made by 'plgc condense', or folders of them with a manifest."),
]
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
WAYS = {"learned": "our head, its learned part alone", "parts": "our head, X, ÂX and Â²X beside"}


@dataclass(frozen=True)
class ModelOptions:
    """How models are rebuilt from condensed files and fine-tuned."""

    task: Annotated[TaskName, typer.Option(help="What to fine-tune for.")] = TaskName.node
    shots: Shots = None
    labels: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use N training labels in all, evenly over the classes.")
    ] = None
    combine: Annotated[
        Combination | None,
        typer.Option(
            help="How several sources are combined; default heads, parts of a graph merged, preset paper sum."
        ),
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="W,W", help="Weights of the sources, in their order; only ratios matter.")
    ] = None
    backbone: Backbone = Kind.gcn
    split: Split = 0
    device: Device = "cpu"

    def __post_init__(self) -> None:
        at_most_one(shots=self.shots, labels=self.labels)
        if self.task != TaskName.node and (self.shots is not None or self.labels is not None):
            raise typer.BadParameter(f"--shots and --labels are for --task node, not {self.task}")
        self._numbers()

    def _numbers(self) -> list[float] | None:
        try:
            return None if self.weights is None else [float(word) for word in self.weights.split(",")]
        except ValueError as error:
            raise typer.BadParameter(
                f"--weights is {self.weights!r}: give one number per source, such as 1,2,1"
            ) from error

    def read(self, files: list[Path], named: GraphOptions) -> tuple[list[CondensedGraph], dict[str, Any], Data]:
        """The condensed graphs in files and folders, how they are combined, and the graph, before a split is chosen.

        Weights are those given, else those of the manifests where they differ.
        """
        from plgc.sources import default_combination, open_sources

        check_device(self.device)
        sources = open_sources(files)
        condensed, listed = [source.condensed for source in sources], [source.weight for source in sources]
        graph = named.as_in(shared_preprocessing(sources)).open()
        check_features(condensed, graph)
        weights = self._numbers() or (listed if len(set(listed)) > 1 else None)
        combine = self.combine or default_combination(sources, weighted=weights is not None)
        return condensed, {"combine": combine, "weights": weights}, graph


@takes(ModelOptions, GraphOptions, DiskOptions)
def train(
    files: Files,
    graph: Graph,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")],
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Make a model: rebuild a backbone, fine-tune a head.

    The backbone comes from the condensed files, one per source, and is not trained further. The head learns classes
    from the graph's training labels, from every label where the graph has no split of its own (accuracy is then
    estimated by cross-validation), or, with --task link, which nodes are joined from its edges.
    """
    options, disk = ModelOptions(**values_of(ModelOptions, given)), DiskOptions(**values_of(DiskOptions, given))
    _check_disk(options, disk)
    if options.task == TaskName.cluster:
        raise typer.BadParameter("--task cluster has nothing to train: use 'plgc evaluate --task cluster'")
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_output(output, [*source_files(files), *named.files()], "a model", force)
    start = time.perf_counter()
    condensed, together, opened = options.read(files, named)
    import plgc
    from plgc.downstream.head import describe_head
    from plgc.downstream.models import finetune_nodes
    from plgc.evaluation.runs import common_seen, graph_for
    from plgc.graphs.derive import derived_of
    from plgc.graphs.labels import has_own_split

    data = graph_for(opened, common_seen(condensed), options.split, seed)
    rebuilt = plgc.reconstruct(condensed, kind=options.backbone, seed=seed, device=options.device, **together)
    result: dict[str, Any] = {
        "model": str(output),
        "task": options.task,
        "graph": data.name,
        "nodes": sum(part.num_nodes for part in condensed),
        "sources": len(condensed),
        "backbone": options.backbone,
        "split": data.split_origin,
        "shots": options.shots,
        "labels": options.labels,
        "seed": seed,
        "val": None,
    }
    if options.task == TaskName.link:
        if derived_of(data) is not None:
            notice("the features are derived from all edges, validation edges too: the AUROC is too high")
        elif any(part.seen.edges == "all" and part.seen.nodes == "all" for part in condensed):
            notice(
                "if the file was condensed from this graph it has seen these edges, validation edges too: then the "
                "AUROC is too high, and the head trusts what was learned too much (--edges train hides edges)"
            )
        model = plgc.finetune(rebuilt, data, task="link", seed=seed)
        result["val"] = {"auroc": model.head.validation["kept"]}
        learned = f"the edges of {data.name}"
        found = {"validation": f"AUROC {result['val']['auroc']:.3f} on a tenth of its edges"}
    else:
        with working() as progress, _place(rebuilt, data, options, seed, disk, output.parent, progress) as prepared:
            model = finetune_nodes(
                rebuilt, data, shots=options.shots, labels=options.labels, seed=seed, prepared=prepared
            )
            own = has_own_split(data)
            result["fitted_on"] = model.learned_from
            learned = f"{model.learned_from} ({data.name}{f'; {data.split_origin}' if own else ''})"
            if own:
                result["val"], found = _validate(model, data, options, prepared)
            else:
                result["split"] = "no split of its own: every label may be used"
                result["estimate"], found = _estimate(rebuilt, data, options, seed, prepared, progress)
        words = describe_head(model.head.settled)
        result["head"] = {**model.head.settled, "words": words}
        learned += f"; {words}" if words else ""
    model.save(output)
    result |= {"seconds": time.perf_counter() - start, "bytes": output.stat().st_size}
    pairs = {
        "model": f"{output}, {size(result['bytes'])}",
        "rebuilt from": f"{result['nodes']} synthetic nodes{_sources_text(result)}, {options.backbone} backbone",
        "fitted on": learned,
        "time": seconds(result["seconds"]),
    }
    show(result, facts(pairs | found), json)


def _check_disk(options: ModelOptions, disk: DiskOptions) -> None:
    if options.task != TaskName.node and disk.memory is not None:
        raise typer.BadParameter(f"--memory is for --task node, --task {options.task} has the graph in memory")


@contextlib.contextmanager
def _place(
    backbone: BackboneModel,
    data: Data,
    options: ModelOptions,
    seed: int,
    disk: DiskOptions,
    beside: Path,
    progress: Progress,
) -> Iterator[StoredGraphs | None]:
    """A place for the work on a graph that stays on disk; None for one in memory."""
    from plgc.downstream.from_disk import from_disk, stays_on_disk
    from plgc.downstream.models import check_from_disk, node_work

    if disk.memory is None:
        yield None
        return
    work = node_work(backbone, data, options.shots, options.labels, seed)
    if not stays_on_disk(data, work, disk.memory):
        yield None
        return
    check_from_disk(backbone)
    with from_disk(data, work, disk.memory, disk.scratch or beside, progress) as prepared:
        yield prepared


def _validate(
    model: NodeModel, data: Data, options: ModelOptions, prepared: StoredGraphs | None
) -> tuple[dict[str, float] | None, dict[str, str]]:
    """Scores on the validation nodes of the graph's own split, where it has some, and in words."""
    if not bool(data.val_mask.any()):
        return None, {}
    scores = model.evaluate(data, on="val", prepared=prepared)
    text = f"accuracy {scores['accuracy']:.1f} % on {int(data.val_mask.sum())} nodes"
    if options.shots is None and options.labels is None:
        text += " (these labels also weighed the head's parts, so expect less on others)"
    return scores, {"validation": text}


def _estimate(
    backbone: BackboneModel,
    data: Data,
    options: ModelOptions,
    seed: int,
    prepared: StoredGraphs | None,
    progress: Progress,
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """The cross-validated estimate over every label, and in words; None where no label can be held out."""
    from plgc.evaluation import cross_validate
    from plgc.runtime.errors import LabelError

    try:
        found = cross_validate(
            backbone,
            data,
            shots=options.shots,
            labels=options.labels,
            seed=seed,
            prepared=prepared,
            progress=progress,
        )
    except LabelError as error:
        return None, {"estimate": f"none: {error}"}
    low, high = found["interval"]
    return found, {
        "estimate": f"accuracy {found['accuracy']['mean']:.1f} % (95 %: {low:.1f} to {high:.1f}), macro-F1 "
        f"{found['macro_f1']['mean']:.1f}; cross-validated",
        "rests on": f"{found['nodes']} nodes, {found['repeats']} repetition(s) of {found['folds']} fold(s); their "
        f"heads were fitted on {found['learned_from']} labels",
    }


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
    _check_disk(options, disk)
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
        f"{result['graph']}: {result['nodes']} synthetic nodes{_sources_text(result)}, {result['backbone']} backbone, "
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


def _sources_text(result: dict[str, Any]) -> str:
    return f" of {result['sources']} sources" if result["sources"] > 1 else ""


def _labels_text(result: dict[str, Any]) -> str:
    if result["shots"] is not None:
        return f"{result['shots']} label(s) per class"
    return f"{result['labels']} labels" if result["labels"] is not None else "all training labels"
