"""``plgc predict``: what a model says of a graph's nodes, or of pairs of them."""

from __future__ import annotations

import csv
import difflib
import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.graph import Named
from plgc.cli.inputs import check_not_input
from plgc.cli.messages import Quiet, Verbose, working
from plgc.cli.options import (
    Column,
    Device,
    Features,
    FeaturesSeed,
    Graph,
    Json,
    NodesTable,
    Standardize,
    check_device,
    examples,
)
from plgc.cli.output import facts, show
from plgc.runtime.errors import SettingError
from plgc.runtime.files import check_writable, write_atomically

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from plgc import LinkModel, NodeModel

EXAMPLES = examples(
    "plgc predict model.safetensors --graph cora -o answers.csv",
    "plgc predict model.safetensors --graph edges.csv --nodes-table nodes.csv -o answers.csv",
    "plgc predict links.safetensors --graph cora --pairs pairs.csv -o scores.csv",
)
SEARCHED = 20_000  # ids among which the nearest to a misspelt one is looked for
Answer = tuple[list[list[Any]], dict[str, Any], tuple[str, str, str]]  # the CSV's rows, JSON values, words for people


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file made by 'plgc train'.")],
    graph: Graph,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.csv", help="The CSV file to write.")],
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="PAIRS.csv", help="For a link model: two columns of nodes to score."),
    ] = None,
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
    """Write a model's answers as CSV.

    A node model gives the class of every node (node, predicted_class, probability). A link model gives the probability
    that each of --pairs is joined (source, target, probability). Nodes and classes go by their names where they have
    some, else by their numbers, in --pairs too.
    """
    named = Named(graph, nodes_table, column, standardize, features, features_seed)
    named.check()
    check_not_input([output], [model, *([pairs] if pairs else ()), *named.files()])
    check_writable(output)
    check_device(device)
    import plgc

    start = time.perf_counter()
    loaded = plgc.load_model(model, device=device)
    if isinstance(loaded, plgc.LinkModel) and pairs is None:
        raise typer.BadParameter("this model predicts links: name the pairs of nodes to score with --pairs")
    if isinstance(loaded, plgc.NodeModel) and pairs is not None:
        raise typer.BadParameter("this model predicts classes of nodes: leave --pairs out")
    data = named.load()
    wanted = None if pairs is None else read_pairs(pairs, data._store.get("node_ids"))
    with working() as progress:
        progress(f"asking about {data.name}", 0, 1)
        if isinstance(loaded, plgc.NodeModel):
            rows, result, text = _node_rows(loaded, data)
        else:
            assert wanted is not None
            rows, result, text = _link_rows(loaded, data, wanted)
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
    ids, classes = data._store.get("node_ids") or range(len(predicted)), model.names.classes
    called = classes or range(probabilities.shape[1])
    rows: list[list[Any]] = [["node", "predicted_class", "probability"]]
    for node, label, share in zip(ids, predicted.tolist(), probability.tolist(), strict=True):
        rows.append([node, called[label], f"{share:.6f}"])
    counts = predicted.bincount(minlength=probabilities.shape[1]).tolist()
    shown = ", ".join(f"{name}: {count}" for name, count in zip(called, counts, strict=True))
    result = {"nodes": predicted.numel(), "classes": None if classes is None else list(classes), "class_counts": counts}
    return rows, result, (f"{predicted.numel()} nodes", "nodes per class", shown)


def _link_rows(model: LinkModel, data: Data, pairs: Tensor) -> Answer:
    probability = model.predict_proba(data, pairs).tolist()
    ids = data._store.get("node_ids") or range(data.num_nodes or 0)
    rows: list[list[Any]] = [["source", "target", "probability"]]
    rows += [[ids[u], ids[v], f"{share:.6f}"] for (u, v), share in zip(pairs.t().tolist(), probability, strict=True)]
    likely = sum(share > 0.5 for share in probability)
    return (
        rows,
        {"pairs": len(probability), "likely": likely},
        (f"{len(probability)} pairs", "above a half", str(likely)),
    )


def read_pairs(path: Path, ids: Sequence[str] | None = None) -> Tensor:
    """Pairs of nodes from a CSV file as node numbers, [2, E]; a first line of names is skipped.

    Args:
        path: the file.
        ids: what the nodes are called, where the file names them so; else it names their numbers.
    """
    import torch

    try:
        lines = [line for line in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError(f"{path} cannot be read as a CSV file of pairs ({error})") from error
    number = None if ids is None else {name: place for place, name in enumerate(ids)}
    if lines and not any(_is_node(cell.strip(), number) for cell in lines[0]):
        lines = lines[1:]
    what, such = ("node numbers", "17,42") if ids is None else ("ids of nodes", f"{ids[0]},{ids[-1]}")
    found = []
    for place, line in enumerate(lines, 1):
        try:
            source, target = (int(cell) if number is None else number[cell.strip()] for cell in line[:2])
        except (ValueError, LookupError) as error:
            near = _nearest(line[:2], number)
            raise SettingError(f"{path}: pair {place} is {','.join(line)!r}, expected two {what}{near}") from error
        found.append((source, target))
    if not found:
        raise SettingError(f"{path} holds no pairs: give two {what} a line, as in {such}")
    return torch.tensor(found).t()


def _is_node(cell: str, number: Mapping[str, int] | None) -> bool:
    return cell.lstrip("-").isdigit() if number is None else cell in number


def _nearest(cells: Sequence[str], number: Mapping[str, int] | None) -> str:
    """What may have been meant by a node that does not exist."""
    unknown = [cell.strip() for cell in cells if number is not None and cell.strip() not in number]
    near = difflib.get_close_matches(unknown[0], list(number or ())[:SEARCHED], n=1) if unknown else []
    return f": there is no node {unknown[0]!r}" + (f", did you mean {near[0]!r}?" if near else "") if unknown else ""
