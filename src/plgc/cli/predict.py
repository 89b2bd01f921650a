"""``plgc predict``: a model's predictions for the nodes of a graph, or for pairs of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_table
from plgc.cli.models import place
from plgc.cli.node_lists import read_nodes
from plgc.cli.options import Device, DiskOptions, Graph, Json, check_device, examples, takes, values_of
from plgc.cli.output import facts, show, working
from plgc.cli.predictions import ROWS, Block, is_table, write_predictions
from plgc.cli.written import Force, check_output

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.downstream.models import LinkModel, NodeModel
    from plgc.runtime.progress import Progress
    from plgc.sparse.stored_inputs import StoredGraphs

EXAMPLES = examples(
    "plgc predict model.safetensors --graph cora -o answers.csv",
    "plgc predict model.safetensors --graph edges.csv --nodes-table nodes.csv -o answers.csv",
    "plgc predict model.safetensors --graph big/ --memory 2GiB -o answers.parquet",
    "plgc predict links.safetensors --graph cora --pairs pairs.csv -o scores.csv",
)
Written = tuple[dict[str, Any], tuple[str, str, str]]  # JSON values, texts


@takes(GraphOptions, DiskOptions)
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file made by 'plgc train'.")],
    graph: Graph,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.csv", help="The CSV or Parquet file to write.")
    ],
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="PAIRS.csv", help="For a link model: two columns of nodes to score."),
    ] = None,
    device: Device = "cpu",
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Write a model's predictions as CSV or, where the file is called so, as Parquet.

    A node model gives the class of every node (node, predicted_class, probability). A link model gives the probability
    that each of --pairs is joined (source, target, probability). Nodes and classes are written by name where they have
    one, else by number, in --pairs too.
    """
    disk = DiskOptions(**values_of(DiskOptions, given))
    if pairs is not None and disk.memory is not None:
        raise typer.BadParameter("--memory is for classes of nodes: links are predicted with the graph in memory")
    is_table(output)
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_output(output, [model, *([pairs] if pairs else ()), *named.files()], "predictions", force)
    check_device(device)
    import plgc
    from plgc.downstream.from_disk import Work

    start = time.perf_counter()
    loaded = plgc.load_model(model, device=device)
    if isinstance(loaded, plgc.LinkModel) and pairs is None:
        raise typer.BadParameter("this model predicts links: name the pairs of nodes to score with --pairs")
    if isinstance(loaded, plgc.NodeModel) and pairs is not None:
        raise typer.BadParameter("this model predicts classes of nodes: leave --pairs out")
    data = named.as_in(loaded.names.preprocessing).load()
    check_table(loaded.names.preprocessing, data, "this model")
    with working() as progress:
        progress(f"predicting on {data.name}", 0, 1)
        if isinstance(loaded, plgc.LinkModel):
            assert pairs is not None
            result, text = _write_links(output, loaded, data, pairs)
        else:
            work = Work(loaded.backbone.parts, loaded.head.num_classes)
            with place(loaded.backbone, data, work, disk, output.parent, progress) as prepared:
                result, text = _write_nodes(output, loaded, data, prepared, progress)
    result = {
        "predictions": str(output),
        "graph": data.name,
        **result,
        "seconds": time.perf_counter() - start,
        "bytes": output.stat().st_size,
    }
    show(result, facts({"predictions": f"{output}, {text[0]} of {data.name}", text[1]: text[2]}), json)


def _write_nodes(
    output: Path, model: NodeModel, data: Data, prepared: StoredGraphs | None, progress: Progress
) -> Written:
    from plgc.graphs.attributes import attribute

    probabilities = model.probabilities(data, prepared)
    count, width = probabilities.shape
    ids, classes = attribute(data, "node_ids") or range(count), model.names.classes
    names, counts = classes or range(width), [0] * width

    def blocks() -> Iterator[Block]:
        for first in range(0, count, ROWS):
            probability, predicted = probabilities[first : first + ROWS].max(dim=1)
            for label, more in enumerate(predicted.bincount(minlength=width).tolist()):
                counts[label] += more
            last = first + len(predicted)
            yield ids[first:last], [names[label] for label in predicted.tolist()], probability.tolist()
            progress(f"writing {output.name}", last, count)

    write_predictions(output, 0, blocks())
    shown = ", ".join(f"{name}: {number}" for name, number in zip(names, counts, strict=True))
    result = {"nodes": count, "classes": None if classes is None else list(classes), "class_counts": counts}
    return result, (f"{count} nodes", "nodes per class", shown)


def _write_links(output: Path, model: LinkModel, data: Data, file: Path) -> Written:
    from plgc.graphs.attributes import attribute

    pairs = read_nodes(file, attribute(data, "node_ids"), 2).t()
    probability = model.predict_proba(data, pairs).tolist()
    count, likely = len(probability), sum(share > 0.5 for share in probability)
    ids = attribute(data, "node_ids") or range(data.num_nodes or 0)
    source, target = ([ids[node] for node in nodes] for nodes in pairs.tolist())
    write_predictions(output, 1, [(source, target, probability)])
    return {"pairs": count, "likely": likely}, (f"{count} pairs", "above a half", str(likely))
