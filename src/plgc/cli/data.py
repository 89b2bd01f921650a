"""``plgc data``: graphs that have a name, descriptions of tables for several owners, graphs larger than memory."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, TableOptions
from plgc.cli.options import Json, Stored, examples, takes, values_of
from plgc.cli.output import facts, notice, show, size, table, warn, working
from plgc.cli.written import Force, check_output

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List or fetch graphs that have a name; describe tables; store large graphs.",
)


@app.command("list", epilog=examples("plgc data list", "PLGC_DATA=~/graphs plgc data list --json"))
@takes()
def list_names(json: Json = False, **_given: Any) -> None:
    """List the graphs that can be loaded by name.

    'where' says where each would come from: the folder PLGC_DATA, the cache, a download, or the package itself.
    """
    from plgc.graphs import list_graphs

    entries = [asdict(entry) for entry in list_graphs()]
    columns = ["name", "where", "nodes", "edges", "features", "classes"]
    cells = [["-" if entry[column] is None else str(entry[column]) for column in columns] for entry in entries]
    show({"graphs": entries}, table([columns, *cells], names=2), json)


@app.command("get", epilog=examples("plgc data get cora", "plgc data get citeseer --json"))
@takes()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from 'plgc data list'.")],
    json: Json = False,
    **_given: Any,
) -> None:
    """Print the path of a graph's npz file, downloaded first where needed."""
    from plgc.graphs import get_graph

    path = get_graph(name)
    show({"name": name, "path": str(path), "bytes": path.stat().st_size}, str(path), json)


@app.command(
    "describe",
    epilog=examples(
        "plgc data describe customers.csv --column label=segment --min-cluster 5 -o description.json",
        "plgc data describe east.csv west.csv --column id=customer --column label=segment -o description.json",
    ),
)
@takes(TableOptions)
def describe(
    tables: Annotated[list[Path], typer.Argument(metavar="TABLE...", help="Node tables: CSV, TSV, Parquet.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="JSON", help="The file to write.")],
    min_cluster: Annotated[
        int, typer.Option(min=1, metavar="M", help="Words of fewer rows are not listed: they count as unknown.")
    ] = 1,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Describe how the columns of tables become features, for several owners to share.

    The medians, spreads and words are those of all rows of the tables; no label is read. 'plgc condense --preprocess'
    reads a table by them. Give the file to the other owners: column names and words in it are not hidden.
    """
    check_output(output, tables, "a description", force)
    from plgc.graphs.formats.arrays import YEAR
    from plgc.graphs.formats.tables import describe_tables
    from plgc.graphs.preprocessing import save_preprocessing

    named = replace(GraphOptions("", **values_of(TableOptions, given)), rare=min_cluster)
    notes: list[str] = []
    timed = {} if named.until is None else {"time": named.time or YEAR, "until": named.until}
    known = describe_tables(tables, replace(named.columns(), **timed), notes)
    for note in notes:
        notice(note)
    save_preprocessing(known, output)
    result = {"description": str(output), "features": len(known.features), "notes": notes, **known.to_dict()}
    pairs = {"description": f"{output}, {len(known.features)} features", "table": known.summary()}
    show(result, facts(pairs | {f"column {name}": text for name, text in known.told().items()}), json)


@app.command(
    "store",
    epilog=examples(
        "plgc data store edges/ --nodes-table nodes/ --memory 1GiB -o big/",
        "plgc data store edges.csv.gz --nodes-table nodes.csv --dtype float16 -o big/",
        "plgc data store graph.safetensors -o big/",
    ),
)
@takes(TableOptions)
def store(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="An edge list (Parquet, CSV, TSV), a folder of such parts, a folder of npy files, npz or safetensors.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write; a new one.")],
    nodes_table: Annotated[
        Path | None,
        typer.Option("--nodes-table", metavar="TABLE", help="The table of the nodes, or a folder of its parts."),
    ] = None,
    preprocess: Annotated[
        Path | None,
        typer.Option("--preprocess", metavar="JSON", help="Read the table by a description of 'plgc data describe'."),
    ] = None,
    dtype: Annotated[Stored | None, typer.Option(help="Of dense features; by default what they are in.")] = None,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Stay within, as in 4GiB.")] = "1GiB",
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads that read tables.")] = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Store a graph that may be larger than memory as a folder that every command opens without reading it whole.

    Edges are sorted on disk, in blocks. Where the command is stopped, the same command goes on from FOLDER.storing.
    """
    options = values_of(TableOptions, given)
    if options["until"] is not None or options["since"] is not None:
        raise typer.BadParameter("the whole graph is stored: give --time alone, and --until or --since when it is used")
    named = GraphOptions("", **{name: value for name, value in options.items() if name != "time"})
    from plgc.graphs import store_graph
    from plgc.graphs.load import ClassLikeWarning
    from plgc.graphs.preprocessing import read_preprocessing
    from plgc.runtime.memory import watched_memory

    known = None if preprocess is None else read_preprocessing(preprocess)
    columns = replace(replace(named, known=known).columns(), time=options["time"])
    start, told = time.perf_counter(), list[str]()
    inputs = {"nodes_table": nodes_table, "columns": columns, "memory": memory, "threads": threads}
    with watched_memory() as usage, working() as progress, warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ClassLikeWarning)
        store_graph(
            source,
            output,
            dtype=None if dtype is None else str(dtype),
            progress=progress,
            notice=told.append,
            **inputs,
        )
    warn([str(doubt.message) for doubt in doubts])
    notes = [note for note in told if note not in {str(doubt.message) for doubt in doubts}]
    for note in notes:
        notice(note)
    result = stored_counts(output) | {
        "folder": str(output),
        "bytes": sum(path.stat().st_size for path in output.iterdir()),
        "seconds": time.perf_counter() - start,
        "peak_memory_bytes": usage.memory,
        "peak_mapped_bytes": usage.mapped,
        "notes": notes,
    }
    counts = f"{result['nodes']:,} nodes, {result['edges']:,} entries, {result['features']:,} features"
    pairs = {"folder": f"{output}, {size(result['bytes'])}", "graph": counts}
    show(result, facts(pairs | {"cost": f"{result['seconds']:.1f} s"}), json)


def stored_counts(folder: Path) -> dict[str, Any]:
    """Name and counts of a graph on disk, as its ``meta`` states them."""
    import numpy as np

    from plgc.graphs.formats.arrays import read_meta

    meta = read_meta({"meta": np.load(folder / "meta.npy", allow_pickle=False)})
    return {key: meta.get(key) for key in ("name", "nodes", "edges", "features", "classes")}
