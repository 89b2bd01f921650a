"""``plgc train``: from condensed files to a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, source_files
from plgc.cli.models import Files, ModelOptions, check_disk, place, sources_text
from plgc.cli.options import DiskOptions, Graph, Json, Seed, TaskName, examples, takes, values_of
from plgc.cli.output import facts, notice, seconds, show, size, working
from plgc.cli.written import Force, check_output

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.downstream.backbone import Backbone
    from plgc.downstream.models import NodeModel
    from plgc.runtime.progress import Progress
    from plgc.sparse.stored_inputs import StoredGraphs

EXAMPLES = examples(
    "plgc train cora.safetensors --graph cora --shots 3 -o model.safetensors",
    "plgc train mine.safetensors --graph edges.csv --nodes-table nodes.csv -o model.safetensors",
    "plgc train cora.safetensors --graph cora --task link -o links.safetensors",
)


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
    check_disk(options, disk)
    if options.task == TaskName.cluster:
        raise typer.BadParameter("--task cluster has nothing to train: use 'plgc evaluate --task cluster'")
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_output(output, [*source_files(files), *named.files()], "a model", force)
    start = time.perf_counter()
    condensed, together, opened = options.read(files, named)
    import plgc
    from plgc.downstream.head import describe_head
    from plgc.downstream.models import finetune_nodes, node_work
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
        work = node_work(rebuilt, data, options.shots, options.labels, seed)
        with working() as progress, place(rebuilt, data, work, disk, output.parent, progress) as prepared:
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
        "rebuilt from": f"{result['nodes']} synthetic nodes{sources_text(result)}, {options.backbone} backbone",
        "fitted on": learned,
        "time": seconds(result["seconds"]),
    }
    show(result, facts(pairs | found), json)


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
    backbone: Backbone,
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
