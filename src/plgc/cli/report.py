"""``plgc report`` writes one HTML page on condensed graphs and runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import MANIFEST, GraphOptions, check_features, shared_preprocessing, source_files
from plgc.cli.options import GRAPH_HELP, Device, Json, Seed, Shots, check_device, examples, takes, values_of
from plgc.cli.output import facts, seconds, show, size, working
from plgc.cli.written import Force, check_output

EXAMPLES = examples(
    "plgc report cora.safetensors --graph cora -o cora.html",
    "plgc report mine.safetensors --graph edges.csv --nodes-table nodes.csv -o mine.html",
    "plgc report trio/ --graph citation_dblpv7 --shots 3 -o trio.html",
)


@takes(GraphOptions)
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
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="The page's title; by default from the graph's name.")
    ] = None,
    device: Device = "cpu",
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Write a page on condensed graphs: what they hold, how accurate they are, a map, and how they were made.

    It is one HTML file that opens without a network. Several condensed graphs are compared. With --shots, accuracy is
    also measured with S labels per class.
    """
    named = GraphOptions(graph or "", **values_of(GraphOptions, given))
    if graph is None and not named.plain:
        option = "--nodes-table" if named.nodes_table else "an option on how to read a graph"
        raise typer.BadParameter(f"{option} belongs to a --graph: give both")
    check_output(output, [*source_files(files), *named.files()], "a report", force)
    check_device(device)
    from plgc.report.build import report_facts, write_page
    from plgc.report.inputs import ReportOptions

    start = time.perf_counter()
    shown = {} if graph is None else _graph_arguments(named, files)
    with working() as progress:
        options = ReportOptions(**shown, seed=seed, seeds=seeds, shots=shots, device=device, title=title)
        found = report_facts(files, options, progress)
    written = write_page(found, output)
    result = {
        "report": str(written),
        "graph": graph,
        "given": [str(file) for file in files],
        "seeds": seeds,
        "shots": shots,
        "seed": seed,
        "scores": [scores.to_dict() for scores in found.scores],
        "unscored": found.unscored,
        "bytes": written.stat().st_size,
        "seconds": time.perf_counter() - start,
    }
    pairs = {"report": f"{written}, {size(result['bytes'])}", "time": seconds(result["seconds"])}
    show(result, facts(pairs), json)


def _graph_arguments(named: GraphOptions, files: list[Path]) -> dict[str, Any]:
    """The arguments of the report on the graph, whose features must be those of the files."""
    from plgc.report.inputs import is_run
    from plgc.sources import open_sources

    there = [path for path in files if not is_run(path) and (path.is_file() or (path / MANIFEST).is_file())]
    sources = open_sources(there)
    data = named.as_in(shared_preprocessing(sources) if sources else None).open()
    check_features((source.condensed for source in sources), data)
    return {"graph": data, "graph_name": Path(named.graph).name, "graph_options": named.table_options}
