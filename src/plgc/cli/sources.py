"""``plgc condense`` of several graphs, or of the parts of one: a folder of files with a manifest."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plgc.cli.graph import Named
from plgc.cli.inputs import check_not_input
from plgc.cli.messages import working
from plgc.cli.options import Condenser, Engine, Partition, check_device
from plgc.cli.output import partition_text, seconds, size, table
from plgc.cli.request import Request, report

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.sources import Sources

ENGINE = ("engine", "address", "workers", "cpus", "gpus")


def check_alone(request: Request) -> None:
    """Usage error where one graph, and a file, comes with what only several sources have."""
    given = [name.replace("_", "-") for name in request.several.given()]
    if given:
        raise typer.BadParameter(f"--{given[0]} is for several graphs, for --parts of one, or for a folder of sources")


def condense_several(request: Request) -> tuple[dict[str, Any], str]:
    """Do it; the result and its text."""
    _check(request)
    given = [path for graph in request.graphs for path in Named(graph).files()]
    check_not_input(_written(request), [*request.named.files(), *given])
    if request.several.engine is not Engine.ray:
        check_device(request.device)  # a cluster's devices are elsewhere
    start = time.perf_counter()
    graph = _read(request)
    with working() as progress:
        sources = _condense(request, graph, progress)
    artifacts = []
    for source, condensed in zip(sources.sources, sources.load(), strict=True):
        facts = report(source.path, source.name, condensed, source.seconds, source.peak_memory_bytes)
        artifacts.append({**facts, "sha256": source.entry.sha256, "made": source.made, "replaced": source.replaced})
    result = {
        "manifest": str(sources.manifest),
        "partition": sources.partition if request.several.parts else None,
        "seconds": time.perf_counter() - start,
        "artifacts": artifacts,
    }
    return result, _text(result)


def _check(request: Request) -> None:
    several, parts = request.several, request.several.parts
    if request.method is not Condenser.plgc:
        raise typer.BadParameter(
            f"--method {request.method.value} condenses one graph: several sources are for plgc; others are combined "
            "in 'plgc experiment' only"
        )
    if parts is not None and len(request.graphs) > 1:
        raise typer.BadParameter(f"--parts cuts one graph, {len(request.graphs)} were given")
    if parts is None and (given := several.given("partition", "alpha", "halo")):
        raise typer.BadParameter(f"--{next(iter(given))} is for the parts of one graph: give --parts with it")
    if several.alpha is not None and several.partition is not Partition.skewed:
        raise typer.BadParameter("--alpha is for --partition skewed")
    if parts is None and not request.view.whole:
        raise typer.BadParameter("--inductive and --edges train are for one graph and a file, or for --parts")
    if len(request.graphs) > 1 and not request.named.plain:
        raise typer.BadParameter(
            "--nodes-table, --column, --standardize and --features go with one graph: condense each by itself, and "
            "name the files together where they are used, as in 'plgc evaluate A.safetensors B.safetensors'"
        )
    if request.named.features is not None and parts is None:
        raise typer.BadParameter(
            "--features derives other features from every graph, which mean nothing to the folder's other sources: "
            "give --parts, or a file to write"
        )
    if request.threads is not None:
        raise typer.BadParameter("--threads is for one file: give --cpus, the threads of every source")
    if request.checkpoint is not None:
        raise typer.BadParameter(
            "--checkpoint is for one graph: the folder keeps finished sources, and of long ones how far they are"
        )


def _written(request: Request) -> list[Path]:
    """The folder, and the files in it that are written anew. Other files of a folder that is extended are kept."""
    from plgc.sources.manifest import MANIFEST, SUFFIX
    from plgc.sources.names import source_names

    folder, names, parts = request.output, request.several.names, request.several.parts
    given = None if names is None else names.split(",") if parts is None else [names]
    called = source_names(request.graphs, given)
    if parts is not None:
        called = [f"{called[0]}-part{number + 1}" for number in range(parts)]
    return [folder, folder / MANIFEST, *(folder / f"{name}{SUFFIX}" for name in called)]


def _read(request: Request) -> Data | None:
    """The one graph that is to be cut, or that is read otherwise than by its name; None where names will do."""
    if request.several.parts is None and request.named.plain:
        return None
    return request.view.of(request.named.load(request.view.split, request.seed))


def _condense(request: Request, graph: Data | None, progress: Any) -> Sources:
    import plgc

    several, names = request.several, request.several.names
    common: dict[str, Any] = {
        "nodes": request.nodes,
        "ratio": request.ratio,
        "seed": request.seed,
        "preset": request.preset.value,
        "device": request.device,
        "progress": progress,
        **request.limits,
        **request.guard.given(),
        **several.given("shared_seed", *ENGINE),
    }
    if several.parts is None:
        given = None if names is None else names.split(",")
        graphs = request.graphs if graph is None else [graph]
        return plgc.condense_sources(graphs, request.output, names=given, **common)
    assert graph is not None
    how = (several.partition or Partition.random).value
    return plgc.condense_parts(
        graph, request.output, several.parts, how, name=names, **several.given("alpha", "halo"), **common
    )


def _text(result: dict[str, Any]) -> str:
    rows = [["source", "nodes", "seed", "size", "time"]]
    for artifact in result["artifacts"]:
        asked = artifact["nodes_requested"]
        nodes = str(artifact["nodes"]) if artifact["nodes"] == asked else f"{artifact['nodes']} (of {asked} asked for)"
        spent = seconds(artifact["seconds"]) if artifact["made"] else "was there already"
        spent += " (replaced another)" if artifact["replaced"] else ""
        rows.append([artifact["graph"], nodes, str(artifact["seed"]), size(artifact["bytes"]), spent])
    cut = f"{partition_text(result['partition'])}\n\n" if result["partition"] else ""
    total = sum(artifact["bytes"] for artifact in result["artifacts"])
    nodes = sum(artifact["nodes"] for artifact in result["artifacts"])
    last = f"{result['manifest']}: {nodes} nodes, {size(total)}, {seconds(result['seconds'])} in all"
    return f"{cut}{table(rows)}\n\n{last}"
