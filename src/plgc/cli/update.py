"""``plgc update`` and ``plgc forget``: the condensed file of a graph that has changed, from the file of the old one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.condense import ComputeOptions, ReleaseOptions, checkpoints, show_made
from plgc.cli.inputs import GraphOptions, check_features
from plgc.cli.node_lists import read_nodes
from plgc.cli.options import Graph, Json, at_most_one, check_device, chosen, examples, takes, values_of
from plgc.cli.output import notice, working
from plgc.cli.written import Force, check_output
from plgc.runtime.files import check_writable

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph

UPDATE_EXAMPLES = examples(
    "plgc update old.safetensors --graph cora -o new.safetensors",
    "plgc update old.safetensors --graph edges.csv --nodes-table nodes.csv --ratio 0.02 -o new.safetensors",
)
FORGET_EXAMPLES = examples(
    "plgc forget cora.safetensors --graph cora --ids gone.csv -o less.safetensors",
    "plgc forget cora.safetensors --graph cora --ids gone.csv --exact -o less.safetensors",
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="A condensed graph made by 'plgc condense'.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="NEW", help="The file to write.")]


class ChangeOptions:
    """What both commands have in common."""

    nodes: Annotated[
        int | None, typer.Option(metavar="K", help="Number of synthetic nodes; by default the file's share of nodes.")
    ] = None
    ratio: Annotated[float | None, typer.Option(metavar="R", help="The same as a share of the nodes.")] = None
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Drives every random choice; by default the file's seed.")
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for checkpoints; default beside NEW, after a minute.", file_okay=False
        ),
    ] = None


@takes(GraphOptions, ChangeOptions, ReleaseOptions, ComputeOptions)
def update(
    file: File,
    graph: Graph,
    output: Output,
    only_new: Annotated[
        bool,
        typer.Option("--only-new", help="The graph is the part that arrived; its core_mask is False for older nodes."),
    ] = False,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Bring a condensed graph up to date with a graph that has grown, at a small part of the cost of condensing it.

    The graph is the whole one as it is now; it may have further columns of features at the end. Training starts from
    what the file knows, and takes a few epochs. The result records the checksum and sizes of the old file. With
    --only-new the file stands in for the nodes that are not in the graph.
    """
    condensed, data, start = _read(file, graph, output, [], force, given)
    if only_new and "core_mask" not in data:
        notice(f"{data.name} has no core_mask: all of its {data.num_nodes} nodes count as new")
    from plgc.graphs.bare import strip_labels
    from plgc.method.update import update as update_condensed

    with checkpoints(given["checkpoint"], output) as folder:
        with working() as progress:
            progress("updating", 0, 1)
            options = {"only_new": only_new, **_arguments(given)}
            made = update_condensed(condensed, strip_labels(data), progress=progress, checkpoint=folder, **options)
        made.save(output)
    show_made(output, data, made, time.perf_counter() - start, json, {"kept": made.chosen.get("kept")})


@takes(GraphOptions, ChangeOptions, ReleaseOptions, ComputeOptions)
def forget(
    file: File,
    graph: Graph,
    ids: Annotated[
        Path, typer.Option("--ids", metavar="CSV", help="The nodes to forget, one a line: ids, or numbers.")
    ],
    output: Output,
    exact: Annotated[
        bool, typer.Option("--exact", help="Take all epochs: the same bytes, and cost, as condensing what remains.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Take a file without a fingerprint, where its counts agree.")
    ] = False,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Make a condensed graph without some nodes and their edges, at a part of the cost of condensing what remains.

    The graph is the one that was condensed, with these nodes. The result does not name them, nor the old file, which
    still tells of them: replace it everywhere.
    """
    condensed, data, start = _read(file, graph, output, [ids], force, given)
    from plgc.graphs.attributes import attribute
    from plgc.graphs.bare import strip_labels
    from plgc.method.forget import forget as forget_nodes

    removed = read_nodes(ids, attribute(data, "node_ids"), 1).flatten()
    options = {"exact": exact, "unchecked": unchecked, **_arguments(given)}
    with checkpoints(given["checkpoint"], output) as folder:
        with working() as progress:
            progress("forgetting", 0, 1)
            made = forget_nodes(condensed, strip_labels(data), removed, progress=progress, checkpoint=folder, **options)
        made.save(output)
    show_made(output, data, made, time.perf_counter() - start, json, {"forgotten": len(removed.unique())})


def _read(
    file: Path, graph: str, output: Path, others: list[Path], force: bool, given: dict[str, Any]
) -> tuple[CondensedGraph, Data, float]:
    """The condensed graph and the graph, read as the file describes its table; and when this began."""
    at_most_one(nodes=given["nodes"], ratio=given["ratio"])
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    check_output(output, [file, *others, *named.files()], "a condensed graph", force)
    check_device(given["device"])
    if given["checkpoint"] is not None:
        check_writable(given["checkpoint"] / "checkpoint")
    from plgc.artifact.condensed import CondensedGraph

    start = time.perf_counter()
    condensed = CondensedGraph.load(file)
    data = named.as_in(condensed.seen.preprocessing).load()
    check_features([condensed], data)
    return condensed, data, start


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The options of both commands as the functions take them."""
    return (
        {name: given[name] for name in ("nodes", "ratio", "seed")}
        | chosen(ReleaseOptions, given)
        | chosen(ComputeOptions, given)
    )
