"""``plgc demo``: every step on one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_not_input
from plgc.cli.inspect import describe, description
from plgc.cli.options import GRAPH_HELP, Device, Json, check_device, examples, takes, values_of
from plgc.cli.output import seconds, show, size, spread, table, working
from plgc.cli.written import Force, check_kind
from plgc.runtime.files import check_writable

EXAMPLES = examples(
    "plgc demo",
    "plgc demo --graph cora -o cora-demo",
    "plgc demo --graph edges.csv --nodes-table nodes.csv -o mine",
)
FILES = ("condensed.safetensors", "figure.png")  # as in plgc.demo, which --help must not wait for


@takes(GraphOptions)
def demo(
    graph: Annotated[str, typer.Option("--graph", metavar="GRAPH", help=f"{GRAPH_HELP} It must have labels.")] = "demo",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo"
    ),
    device: Device = "cpu",
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Every step on one graph, with a figure.

    Condenses the graph, rebuilds a backbone from the file, fine-tunes it on few labels, and compares it with training
    on the whole graph and with four controls.
    """
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_not_input([output, *(output / name for name in FILES)], named.files())
    for name, kind in zip(FILES, ("a condensed graph", "a figure"), strict=True):
        check_kind([output / name], kind, force)
    check_device(device)
    check_writable(output / FILES[0])
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
        "over the edges ('raw features' see none); the last four are controls, which learn nothing from the graph.\n"
        "'to keep': the graph's features and edges as an npz file, or the condensed file.\n"
        "'time': training on the whole graph once, or condensing, rebuilding and fine-tuning once."
    )
    written = f"Written: {result['artifact']}" + (f" and {result['figure']}" if result["figure"] else "")
    parts = [
        f"The graph {result['graph']}, condensed without labels to {result['nodes']} nodes:",
        description(describe(Path(result["artifact"]))),
        "Accuracy of classifiers trained from it, from the whole graph, and from controls that learn nothing:",
        table([heading, *rows]),
        notes,
        result["summary"],
        f"{written} ({seconds(result['seconds'])} in all)",
        result["figure_note"],
    ]
    return "\n\n".join(part for part in parts if part)
