"""``plgc predict``: a model's predictions for the nodes of a graph, or for pairs of them."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_table
from plgc.cli.node_lists import read_nodes
from plgc.cli.options import Device, Graph, Json, check_device, examples, takes, values_of
from plgc.cli.output import facts, show, working
from plgc.cli.written import PREDICTIONS, Force, check_output
from plgc.runtime.files import write_atomically
from plgc.runtime.text import csv_cell

if TYPE_CHECKING:
    from torch_geometric.data import Data

EXAMPLES = examples(
    "plgc predict model.safetensors --graph cora -o answers.csv",
    "plgc predict model.safetensors --graph edges.csv --nodes-table nodes.csv -o answers.csv",
    "plgc predict links.safetensors --graph cora --pairs pairs.csv -o scores.csv",
)
Predictions = tuple[list[list[Any]], dict[str, Any], tuple[str, str, str]]  # rows of the CSV, JSON values, texts


@takes(GraphOptions)
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file made by 'plgc train'.")],
    graph: Graph,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.csv", help="The CSV file to write.")],
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="PAIRS.csv", help="For a link model: two columns of nodes to score."),
    ] = None,
    device: Device = "cpu",
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Write a model's predictions as CSV.

    A node model gives the class of every node (node, predicted_class, probability). A link model gives the probability
    that each of --pairs is joined (source, target, probability). Nodes and classes are written by name where they have
    one, else by number, in --pairs too.
    """
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_output(output, [model, *([pairs] if pairs else ()), *named.files()], "predictions", force)
    check_device(device)
    import plgc

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
        rows, result, text = _node_rows(loaded, data) if pairs is None else _link_rows(loaded, data, pairs)
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([csv_cell(cell) for cell in row] for row in rows)
    write_atomically(output, content.getvalue().encode())
    result = {
        "predictions": str(output),
        "graph": data.name,
        **result,
        "seconds": time.perf_counter() - start,
        "bytes": output.stat().st_size,
    }
    show(result, facts({"predictions": f"{output}, {text[0]} of {data.name}", text[1]: text[2]}), json)


def _node_rows(model: Any, data: Data) -> Predictions:
    from plgc.graphs.attributes import attribute

    probabilities = model.predict_proba(data)
    probability, predicted = probabilities.max(dim=1)
    count, width = probabilities.shape
    ids, classes = attribute(data, "node_ids") or range(count), model.names.classes
    names = classes or range(width)
    rows: list[list[Any]] = [PREDICTIONS[0].split(",")]
    for node, label, share in zip(ids, predicted.tolist(), probability.tolist(), strict=True):
        rows.append([node, names[label], f"{share:.6f}"])
    counts = predicted.bincount(minlength=width).tolist()
    shown = ", ".join(f"{name}: {number}" for name, number in zip(names, counts, strict=True))
    result = {"nodes": count, "classes": None if classes is None else list(classes), "class_counts": counts}
    return rows, result, (f"{count} nodes", "nodes per class", shown)


def _link_rows(model: Any, data: Data, file: Path) -> Predictions:
    from plgc.graphs.attributes import attribute

    pairs = read_nodes(file, attribute(data, "node_ids"), 2).t()
    probability = model.predict_proba(data, pairs).tolist()
    count, likely = len(probability), sum(share > 0.5 for share in probability)
    ids = attribute(data, "node_ids") or range(data.num_nodes or 0)
    rows: list[list[Any]] = [PREDICTIONS[1].split(",")]
    rows += [[ids[u], ids[v], f"{share:.6f}"] for (u, v), share in zip(pairs.t().tolist(), probability, strict=True)]
    return rows, {"pairs": count, "likely": likely}, (f"{count} pairs", "above a half", str(likely))
