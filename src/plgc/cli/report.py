"""``plgc report`` puts what is known of condensed graphs, and of runs, on one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from plgc.cli.options import GRAPH_HELP, Json, Seed, Shots
from plgc.cli.output import facts, seconds, show, size
from plgc.files import check_writable
from plgc.progress import progress_line


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
    nodes_table: Annotated[
        Path | None,
        typer.Option("--nodes-table", metavar="TABLE", help="For a --graph that is an edge list: its nodes' table."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=0, metavar="N", help="Measure accuracy with N seeds; 0: not at all.")] = 3,
    shots: Shots = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write a page on condensed graphs: what they are, whether they work, how they look and how they were made.

    It is one HTML file that opens without a network. Several condensed graphs are compared. With --shots, accuracy is
    also measured with S labels per class.
    """
    if nodes_table is not None and graph is None:
        raise typer.BadParameter("--nodes-table belongs to a --graph: give both")
    check_writable(output)
    from plgc.report import write_report

    start = time.perf_counter()
    with progress_line() as progress:
        written = write_report(
            files,
            output,
            graph=graph,
            nodes_table=nodes_table,
            seed=seed,
            seeds=seeds,
            shots=shots,
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
