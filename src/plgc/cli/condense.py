"""``plgc condense`` makes the small file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.options import (
    GRAPH_HELP,
    Condenser,
    Device,
    Edges,
    Json,
    Preset,
    Seed,
    Split,
    check_device,
    exactly_one,
)
from plgc.cli.output import facts, seconds, show, size, view_text
from plgc.files import check_writable
from plgc.progress import progress_line

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact import CondensedGraph


def condense(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    ratio: Annotated[float | None, typer.Option(metavar="R", help="Keep this share of the nodes: 0 < R <= 1.")] = None,
    nodes: Annotated[int | None, typer.Option(metavar="K", help="Keep this many nodes: at least 2.")] = None,
    seed: Seed = 0,
    preset: Annotated[Preset, typer.Option(help="The best settings we know, or the paper's.")] = Preset.default,
    method: Annotated[Condenser, typer.Option(help="How to condense; all but plgc and ctgc read training labels.")] = (
        Condenser.plgc
    ),
    edges: Annotated[
        Edges, typer.Option(help="For link prediction: 'train' hides validation and test edges (1:1:2).")
    ] = Edges.all,
    edge_seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which edge split, with --edges train.")] = 0,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="See the training nodes alone; --ratio is of them.")
    ] = False,
    split: Split = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where long methods keep where they stand, to go on later.", file_okay=False),
    ] = None,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads; recorded in the file.")] = None,
    json: Json = False,
) -> None:
    """Condense a graph into a small file, by default without labels.

    The file remembers what it was made from: all nodes and edges, training edges (--edges train), or training nodes
    (--inductive). 'plgc evaluate' refuses what it has seen too much for.
    """
    exactly_one(ratio=ratio, nodes=nodes)
    if inductive and edges is Edges.train:
        raise typer.BadParameter("give --inductive or --edges train, not both: unseen nodes bring unseen edges already")
    if edge_seed and edges is Edges.all:
        raise typer.BadParameter("--edge-seed chooses an edge split: give --edges train with it")
    check_writable(output)
    check_device(device)
    if checkpoint is not None:
        check_writable(checkpoint / "checkpoint")
    import plgc
    from plgc.condense import resolve_count
    from plgc.graphs import training_labels
    from plgc.machine import peak_memory
    from plgc.methods import METHODS, condense_with

    start = time.perf_counter()
    data = plgc.load_graph(graph, split=split, seed=seed)
    shown = _shown(data, edges, edge_seed, inductive)
    labels = None
    if METHODS[method.value].supervised:
        labels = training_labels(shown)
        typer.echo(f"{method.value} reads the graph's {labels.train.numel()} training labels", err=True)
    with progress_line() as progress:
        condensed = condense_with(
            method.value,
            shown,
            nodes=resolve_count(shown.num_nodes or 0, ratio, nodes),
            seed=seed,
            labels=labels,
            preset=preset.value,
            device=device,
            threads=threads,
            progress=progress,
            checkpoint=checkpoint,
        )
    condensed.save(output)
    explained = condensed.curves.get("explained", [])
    result = {
        "artifact": str(output),
        "graph": data.name,
        "method": condensed.method,
        "nodes": condensed.num_nodes,
        "nodes_requested": condensed.nodes_requested,
        "ratio": condensed.num_nodes / condensed.source["nodes"],
        "seen": condensed.seen,
        "seed": condensed.seed,
        "preset": preset.value if METHODS[method.value].presets else None,
        "threads": condensed.threads,
        "seconds": time.perf_counter() - start,
        "peak_memory_bytes": peak_memory(),
        "bytes": output.stat().st_size,
        "explained_variance": explained[-1] if explained else None,
        "rounds": len(explained),
    }
    show(result, _condense_text(result, condensed), json)


def _shown(data: Data, edges: Edges, edge_seed: int, inductive: bool) -> Data:
    """What the condensation gets to see."""
    from plgc.graphs import training_edges, training_subgraph

    if inductive:
        return training_subgraph(data)
    return training_edges(data, edge_seed) if edges is Edges.train else data


def _condense_text(result: dict[str, Any], condensed: CondensedGraph) -> str:
    source = condensed.source
    pairs = {
        "graph": f"{result['graph']}{view_text(condensed.seen)}: {source['nodes']} nodes, "
        f"{source['edges'] // 2} edges, {source['features']} features",
        "condensed to": f"{result['nodes']} nodes ({100 * result['ratio']:.2g} %), "
        + ("no edges" if condensed.edge_index is None else f"{condensed.edge_index.shape[1] // 2} edges"),
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "cost": f"{seconds(result['seconds'])}, peak memory {size(result['peak_memory_bytes'])}",
    }
    if result["explained_variance"] is not None:
        share = f"{100 * result['explained_variance']:.0f} % of the embeddings' variance"
        pairs["pseudo-labels"] = f"explain {share} after {result['rounds']} round(s)"
    return facts(pairs)
