"""``plgc demo``: the whole story on one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.graph import Named
from plgc.cli.inputs import check_not_input
from plgc.cli.inspect import describe, description
from plgc.cli.messages import Quiet, Verbose, working
from plgc.cli.options import (
    GRAPH_HELP,
    Column,
    Device,
    Features,
    FeaturesSeed,
    Json,
    NodesTable,
    Standardize,
    check_device,
    examples,
)
from plgc.cli.output import seconds, show, size, spread, table
from plgc.runtime.files import check_writable

EXAMPLES = examples(
    "plgc demo",
    "plgc demo --graph cora -o cora-demo",
    "plgc demo --graph edges.csv --nodes-table nodes.csv -o mine",
)
LEFT = ("condensed.safetensors", "figure.png")  # as in plgc.demo, which --help must not wait for


def demo(
    graph: Annotated[str, typer.Option("--graph", metavar="GRAPH", help=f"{GRAPH_HELP} It must have labels.")] = "demo",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo"
    ),
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
    """The whole story on one graph, with a figure.

    Condenses the graph, rebuilds a backbone from the file, fine-tunes it on few labels, and compares it with training
    on the whole graph and with two controls.
    """
    named = Named(graph, nodes_table, column, standardize, features, features_seed)
    named.check()
    check_not_input([output, *(output / name for name in LEFT)], named.files())
    check_device(device)
    check_writable(output / LEFT[0])
    from plgc.demo.run import run_demo

    data = named.open()
    with working() as progress:
        result = run_demo(data, output, device=device, progress=progress)
    show(result, _text(result), json)


def _text(result: dict[str, Any]) -> str:
    heading = [
        "",
        f"{result['shots']} labels per class",
        f"all {result['train_labels']} labels",
        "nodes",
        "to keep",
        "time",
    ]
    rows = [
        [
            row["method"],
            spread(row["few"]),
            spread(row["all"]),
            "-" if row["nodes"] is None else str(row["nodes"]),
            size(row["bytes"]),
            seconds(row["seconds"]),
        ]
        for row in result["rows"]
    ]
    notes = (
        f"Test accuracy in %, mean and standard deviation over {result['seeds']} seeds; {result['split']}.\n"
        "'whole graph' is a plain GCN trained end to end. The others share one light head, which smooths its answers\n"
        "over the edges; the last two are controls, which have learned nothing from the graph.\n"
        "'to keep': the graph's features and edges as arrays, or the condensed file.\n"
        "'time': training on the whole graph once, or condensing, rebuilding and fine-tuning once."
    )
    left = f"Left behind: {result['artifact']}" + (f" and {result['figure']}" if result["figure"] else "")
    parts = [
        f"The graph {result['graph']}, condensed without labels to {result['nodes']} nodes:",
        description(describe(Path(result["artifact"]))),
        "What classifiers reach that start from it, from the whole graph, and from nothing learned:",
        table([heading, *rows]),
        notes,
        result["summary"],
        f"{left} ({seconds(result['seconds'])} in all)",
        result["figure_note"],
    ]
    return "\n\n".join(part for part in parts if part)
