"""``plgc condense`` of several graphs, or of the parts of one: a folder of files with a manifest."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_not_input
from plgc.cli.options import Engine, Partition, check_device
from plgc.cli.output import file_result, partition_text, seconds, size, table, warn, working
from plgc.cli.written import check_kind

if TYPE_CHECKING:
    from plgc.cli.condense import ViewOptions


class PartOptions:
    """Into which sources a graph is cut, and how sources are named and seeded."""

    parts: Annotated[int | None, typer.Option(min=2, metavar="N", help="Cut one graph into N sources.")] = None
    partition: Annotated[
        Partition | None, typer.Option(help="How to cut; by default random. 'skewed' reads labels.")
    ] = None
    alpha: Annotated[float | None, typer.Option(metavar="A", help="With skewed: smaller is more uneven.")] = None
    halo: Annotated[
        int | None, typer.Option(min=0, metavar="HOPS", help="Parts see their neighbours this many hops around.")
    ] = None
    names: Annotated[str | None, typer.Option(metavar="A,B", help="Names of the sources, not the graphs' own.")] = None
    shared_seed: Annotated[
        bool, typer.Option("--shared-seed", help="All sources start from --seed, not each from its own.")
    ] = False


class PlacementOptions:
    """Where sources are condensed: :class:`plgc.sources.engine.Placement`."""

    engine: Annotated[Engine | None, typer.Option(help="Where sources are condensed; by default serial.")] = None
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A running Ray cluster, or 'auto'; else one is started.")
    ] = None
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Sources side by side.")] = None
    cpus: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads of each source; default 1.")] = None
    gpus: Annotated[float | None, typer.Option(min=0, metavar="N", help="GPUs of each source, with ray.")] = None


def condense_several(
    graphs: list[str],
    output: Path,
    named: GraphOptions,
    view: ViewOptions,
    parts: dict[str, Any],
    options: dict[str, Any],
    method: str,
    checkpoint: Path | None,
    force: bool = False,
) -> tuple[dict[str, Any], str]:
    """Condense every source into a folder; the result and its text.

    Args:
        graphs: as the command line names them.
        output: the folder.
        named: the first of the graphs, and how to read it.
        view: what is seen of it.
        parts: the :class:`PartOptions` that were given.
        options: other arguments of :func:`plgc.condense_sources`.
        method: the method, and
        checkpoint: the folder for checkpoints, both refused unless they are the defaults.
        force: write over files of another kind.
    """
    _check(graphs, named, view, parts, method)
    if "threads" in options:
        raise typer.BadParameter("--threads is for one file: give --cpus, the threads of every source")
    if checkpoint is not None:
        raise typer.BadParameter(
            "--checkpoint is for one graph: the folder keeps finished sources, and checkpoints of long ones"
        )
    read = [path for graph in graphs for path in GraphOptions(graph).files()]
    written = _written(graphs, output, parts)
    check_not_input(written, [*named.files(), *read])
    check_kind(written[2:], "a condensed graph", force)
    if options.get("engine") != Engine.ray:
        check_device(options.get("device", "cpu"))  # a cluster has devices of its own
    import plgc
    from plgc.graphs.load import without_labels
    from plgc.runtime.memory import watched_memory
    from plgc.sources.engine import ray_processes

    start = time.perf_counter()
    cut, names = "parts" in parts, parts.get("names")
    with watched_memory(others=ray_processes) as usage, working() as progress:
        # A graph that is cut, or read by other options than its name, is loaded here.
        each = [replace(named, graph=graph) for graph in graphs] if cut or not named.plain else []
        how = parts.get("partition", Partition.random.value)
        shown = (lambda graph: graph) if how == Partition.skewed else without_labels
        given = [shown(view.of(one.load(view.split, options["seed"]))) for one in each] or graphs
        options = options | {name: value for name, value in parts.items() if name in ("alpha", "halo", "shared_seed")}
        if cut:
            sources = plgc.condense_parts(
                given[0], output, parts["parts"], how, name=names, progress=progress, **options
            )
        else:
            names = None if names is None else names.split(",")
            sources = plgc.condense_sources(given, output, names=names, progress=progress, **options)
    artifacts = []
    for source, condensed in zip(sources.sources, sources.load(), strict=True):
        made = file_result(source.path, source.name, condensed, source.seconds, source.peak_memory_bytes)
        warn(made["warnings"], source.name)
        artifacts.append({**made, "sha256": source.entry.sha256, "made": source.made, "replaced": source.replaced})
    result = {
        "manifest": str(sources.manifest),
        "partition": sources.partition if cut else None,
        "seconds": time.perf_counter() - start,
        "peak_memory_bytes": usage.memory,
        "peak_driver_bytes": usage.own,
        "peak_mapped_bytes": usage.mapped,
        "artifacts": artifacts,
    }
    return result, _text(result)


def _check(graphs: list[str], named: GraphOptions, view: ViewOptions, parts: dict[str, Any], method: str) -> None:
    """Usage errors of options that do not go together."""
    if method != "plgc":
        raise typer.BadParameter(
            f"--method {method} condenses one graph: several sources are for plgc; others are combined in "
            "'plgc experiment' only"
        )
    if "parts" in parts and len(graphs) > 1:
        raise typer.BadParameter(f"--parts cuts one graph, {len(graphs)} were given")
    for name in ("partition", "alpha", "halo"):
        if name in parts and "parts" not in parts:
            raise typer.BadParameter(f"--{name} is for the parts of one graph: give --parts with it")
    if "alpha" in parts and parts.get("partition") != Partition.skewed:
        raise typer.BadParameter("--alpha is for --partition skewed")
    if "parts" not in parts and view.hides:
        raise typer.BadParameter("--inductive and --edges train are for one graph and a file, or for --parts")
    if len(graphs) > 1 and not replace(named, until=None, since=None, time=None).plain:
        raise typer.BadParameter(
            "--nodes-table, --column, --header, --no-scale, --decimal, --preprocess and --features go with one graph: "
            "condense each alone, and name the files together where they are used, as in 'plgc evaluate A.safetensors "
            "B.safetensors'"
        )
    if named.features is not None and "parts" not in parts:
        raise typer.BadParameter(
            "--features derives other features from every graph, which mean nothing to the folder's other sources: "
            "give --parts, or a file to write"
        )


def _written(graphs: list[str], folder: Path, parts: dict[str, Any]) -> list[Path]:
    """The folder, and the files in it that are written anew. Other files of a folder that is extended are kept."""
    from plgc.sources.manifest import MANIFEST, SUFFIX
    from plgc.sources.names import source_names

    given = parts.get("names")
    names = source_names(graphs, None if given is None else [given] if "parts" in parts else given.split(","))
    if "parts" in parts:
        names = [f"{names[0]}-part{number + 1}" for number in range(parts["parts"])]
    return [folder, folder / MANIFEST, *(folder / f"{name}{SUFFIX}" for name in names)]


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
    last += f", peak memory of all processes {size(result['peak_memory_bytes'])}"
    return f"{cut}{table(rows)}\n\n{last}"
