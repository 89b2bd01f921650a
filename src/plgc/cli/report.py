"""``plgc report`` puts what is known of condensed graphs, and of runs, on one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.graph import Named, check_features
from plgc.cli.inputs import check_not_input, source_files
from plgc.cli.messages import Quiet, Verbose, working
from plgc.cli.options import (
    GRAPH_HELP,
    Column,
    Device,
    Features,
    FeaturesSeed,
    Json,
    NodesTable,
    Seed,
    Shots,
    Standardize,
    check_device,
    examples,
)
from plgc.cli.output import facts, seconds, show, size
from plgc.runtime.files import check_writable

if TYPE_CHECKING:
    from torch_geometric.data import Data

EXAMPLES = examples(
    "plgc report cora.safetensors --graph cora -o cora.html",
    "plgc report mine.safetensors --graph edges.csv --nodes-table nodes.csv -o mine.html",
    "plgc report trio/ --graph citation_dblpv7 --shots 3 -o trio.html",
)


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE_OR_RUN",
            help="Files made by 'plgc condense', folders of them, or folders of 'plgc experiment run'.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="HTML", help="The page to write.")],
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph", metavar="GRAPH", help=f"Adds the map, the bounds and, with labels, accuracy. {GRAPH_HELP}"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=0, metavar="N", help="Measure accuracy with N seeds; 0: not at all.")] = 3,
    shots: Shots = None,
    seed: Seed = 0,
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
    """Write a page on condensed graphs: what they are, whether they work, how they look and how they were made.

    It is one HTML file that opens without a network. Several condensed graphs are compared. With --shots, accuracy is
    also measured with S labels per class.
    """
    named = Named(graph or "", nodes_table, column, standardize, features, features_seed)
    named.check()
    if graph is None and not named.plain:
        given = "--nodes-table" if nodes_table else "an option on how to read a graph"
        raise typer.BadParameter(f"{given} belongs to a --graph: give both")
    check_not_input([output], [*source_files(files), *named.files()])
    check_writable(output)
    check_device(device)
    from plgc.report import write_report

    start = time.perf_counter()
    shown = {} if graph is None else _graph_shown(named, files)
    with working() as progress:
        written = write_report(
            files,
            output,
            **shown,
            seed=seed,
            seeds=seeds,
            shots=shots,
            device=device,
            progress=progress,
        )
    result = {
        "report": str(written),
        "graph": graph,
        "given": [str(file) for file in files],
        "seeds": seeds,
        "shots": shots,
        "seed": seed,
        "bytes": written.stat().st_size,
        "seconds": time.perf_counter() - start,
    }
    pairs = {"report": f"{written}, {size(result['bytes'])}", "time": seconds(result["seconds"])}
    show(result, facts(pairs), json)


def _graph_shown(named: Named, files: list[Path]) -> dict[str, Any]:
    """The graph as the report takes it, its features compared with those of the files."""
    from plgc.report.inputs import is_run
    from plgc.sources import MANIFEST, open_sources

    data: Data = named.open()
    there = [path for path in files if not is_run(path) and (path.is_file() or (path / MANIFEST).is_file())]
    check_features((source.condensed for source in open_sources(there)), data)
    return {"graph": data, "graph_name": Path(named.graph).name, "graph_options": named.reading}
