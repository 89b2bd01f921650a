"""``plgc predict``: what a model says of a graph's nodes, or of pairs of them."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.options import Graph, Json
from plgc.cli.output import facts, show
from plgc.errors import SettingError
from plgc.files import check_writable, write_atomically

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from plgc import LinkModel, NodeModel

Answer = tuple[list[list[Any]], dict[str, Any], tuple[str, str, str]]  # the CSV's rows, JSON values, words for people


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file made by 'plgc train'.")],
    graph: Graph,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.csv", help="The CSV file to write.")],
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="PAIRS.csv", help="For a link model: two columns of node numbers to score."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a model's answers as CSV.

    A node model gives the class of every node (node, predicted_class, probability). A link model gives the probability
    that each of --pairs is joined (source, target, probability).
    """
    check_writable(output)
    import plgc

    start = time.perf_counter()
    loaded = plgc.load_model(model)
    data = plgc.load_graph(graph)
    if isinstance(loaded, plgc.LinkModel):
        if pairs is None:
            raise typer.BadParameter("this model predicts links: name the pairs of nodes to score with --pairs")
        rows, result, text = _link_rows(loaded, data, read_pairs(pairs))
    else:
        if pairs is not None:
            raise typer.BadParameter("this model predicts classes of nodes: leave --pairs out")
        rows, result, text = _node_rows(loaded, data)
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(rows)
    write_atomically(output, content.getvalue().encode())
    result = {
        "predictions": str(output),
        "graph": data.name,
        **result,
        "seconds": time.perf_counter() - start,
        "bytes": output.stat().st_size,
    }
    show(result, facts({"predictions": f"{output}, {text[0]} of {data.name}", text[1]: text[2]}), json)


def _node_rows(model: NodeModel, data: Data) -> Answer:
    probabilities = model.predict_proba(data)
    probability, predicted = probabilities.max(dim=1)
    rows: list[list[Any]] = [["node", "predicted_class", "probability"]]
    for node, (label, share) in enumerate(zip(predicted.tolist(), probability.tolist(), strict=True)):
        rows.append([node, label, f"{share:.6f}"])
    counts = predicted.bincount(minlength=probabilities.shape[1]).tolist()
    shown = ", ".join(f"{label}: {count}" for label, count in enumerate(counts))
    result = {"nodes": predicted.numel(), "class_counts": counts}
    return rows, result, (f"{predicted.numel()} nodes", "nodes per class", shown)


def _link_rows(model: LinkModel, data: Data, pairs: Tensor) -> Answer:
    probability = model.predict_proba(data, pairs).tolist()
    rows: list[list[Any]] = [["source", "target", "probability"]]
    rows += [[u, v, f"{share:.6f}"] for (u, v), share in zip(pairs.t().tolist(), probability, strict=True)]
    likely = sum(share > 0.5 for share in probability)
    return (
        rows,
        {"pairs": len(probability), "likely": likely},
        (f"{len(probability)} pairs", "above a half", str(likely)),
    )


def read_pairs(path: Path) -> Tensor:
    """Pairs of node numbers from a CSV file, [2, E]; a first line of names is skipped."""
    import torch

    try:
        lines = [line for line in csv.reader(path.read_text(encoding="utf-8").splitlines()) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError(f"{path} cannot be read as a CSV file of pairs ({error})") from error
    if lines and not any(cell.strip().lstrip("-").isdigit() for cell in lines[0]):
        lines = lines[1:]
    found = []
    for number, line in enumerate(lines, 1):
        try:
            source, target = (int(cell) for cell in line[:2])
        except ValueError as error:
            raise SettingError(f"{path}: pair {number} is {','.join(line)!r}, expected two node numbers") from error
        found.append((source, target))
    if not found:
        raise SettingError(f"{path} holds no pairs: give two node numbers a line, as in 17,42")
    return torch.tensor(found).t()
