"""``plgc condense`` makes the small file, ``plgc inspect`` says what is in one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.options import GRAPH_HELP, Device, Json, Preset, Seed, check_device, exactly_one
from plgc.cli.output import facts, peak_memory, seconds, show, size
from plgc.files import check_writable
from plgc.progress import progress_line

if TYPE_CHECKING:
    from plgc.artifact import CondensedGraph


def condense(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    ratio: Annotated[float | None, typer.Option(metavar="R", help="Keep this share of the nodes: 0 < R <= 1.")] = None,
    nodes: Annotated[int | None, typer.Option(metavar="K", help="Keep this many nodes: at least 2.")] = None,
    seed: Seed = 0,
    preset: Annotated[Preset, typer.Option(help="The best settings we know, or the paper's.")] = Preset.default,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads; recorded in the file.")] = None,
    json: Json = False,
) -> None:
    """Condense a graph into a small file. Labels are never read."""
    exactly_one(ratio=ratio, nodes=nodes)
    check_writable(output)
    check_device(device)
    import plgc

    start = time.perf_counter()
    data = plgc.load_graph(graph)
    with progress_line() as progress:
        condensed = plgc.condense(
            data,
            ratio=ratio,
            nodes=nodes,
            seed=seed,
            preset=preset.value,
            device=device,
            threads=threads,
            progress=progress,
        )
    condensed.save(output)
    explained = condensed.curves.get("explained", [])
    result = {
        "artifact": str(output),
        "graph": data.name,
        "nodes": condensed.num_nodes,
        "nodes_requested": condensed.nodes_requested,
        "ratio": condensed.num_nodes / condensed.source["nodes"],
        "seed": condensed.seed,
        "preset": preset.value,
        "threads": condensed.threads,
        "seconds": time.perf_counter() - start,
        "peak_memory_bytes": peak_memory(),
        "bytes": output.stat().st_size,
        "explained_variance": explained[-1] if explained else None,
        "rounds": len(explained),
    }
    show(result, _condense_text(result, condensed), json)


def _condense_text(result: dict[str, Any], condensed: CondensedGraph) -> str:
    source = condensed.source
    pairs = {
        "graph": f"{result['graph']}: {source['nodes']} nodes, {source['edges'] // 2} edges, "
        f"{source['features']} features",
        "condensed to": f"{result['nodes']} nodes ({100 * result['ratio']:.2g} %), no edges",
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "cost": f"{seconds(result['seconds'])}, peak memory {size(result['peak_memory_bytes'])}",
    }
    if result["explained_variance"] is not None:
        share = f"{100 * result['explained_variance']:.0f} % of the embeddings' variance"
        pairs["pseudo-labels"] = f"explain {share} after {result['rounds']} round(s)"
    return facts(pairs)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by 'plgc condense'.")],
    json: Json = False,
) -> None:
    """Say what a condensed graph holds and how it was made."""
    result = describe(file)
    show(result, description(result), json)


def describe(file: Path) -> dict[str, Any]:
    """Everything about a condensed graph but its tensors, as plain values."""
    import hashlib

    from plgc.artifact import CondensedGraph

    condensed = CondensedGraph.load(file)
    content = file.read_bytes()
    counts = condensed.counts
    return {
        "artifact": str(file),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "nodes": condensed.num_nodes,
        "features": condensed.num_features,
        "pseudo_label_width": condensed.pseudo_labels.shape[1],
        "blocks": list(condensed.blocks),
        "counts": {"min": int(counts.min()), "median": int(counts.median()), "max": int(counts.max())},
        "scaling": condensed.scaling,
        "seed": condensed.seed,
        "threads": condensed.threads,
        "version": condensed.version,
        "source": condensed.source,
        "fingerprint": condensed.fingerprint,
        "nodes_requested": condensed.nodes_requested,
        "settings": condensed.settings,
        "chosen": condensed.chosen,
        "curves": condensed.curves,
    }


def description(result: dict[str, Any]) -> str:
    """What :func:`describe` gave, for people."""
    source, counts, blocks = result["source"], result["counts"], result["blocks"]
    pairs = {
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "sha256": result["sha256"],
        "made by": f"plgc {result['version']}, preset {result['settings'].get('preset', 'unknown')}, "
        f"seed {result['seed']}, {result['threads']} thread(s)",
        "nodes": f"{result['nodes']} synthetic nodes, {result['features']} features (row scaling: {result['scaling']})",
        "pseudo-labels": f"{result['pseudo_label_width']} wide, from {len(blocks)} encoder(s)",
        "stand for": f"{counts['min']} to {counts['max']} original nodes each (median {counts['median']})",
    }
    if {"nodes", "edges"} <= source.keys():
        share = 100 * result["nodes"] / source["nodes"]
        pairs["made from"] = (
            f"{source['nodes']} nodes and {source['edges'] // 2} edges ({share:.2g} % of the nodes kept)"
        )
    pairs["fingerprint"] = result["fingerprint"] or "none"
    for name, values in result["curves"].items():
        if values:
            pairs[f"curve {name}"] = f"{values[0]:.4g} to {values[-1]:.4g} in {len(values)} values"
    return facts(pairs)
