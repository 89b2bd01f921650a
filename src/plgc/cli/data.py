"""``plgc data``: the graphs that have a name, and descriptions of tables for several owners."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, TableOptions
from plgc.cli.options import Json, examples, takes, values_of
from plgc.cli.output import facts, notice, show, table
from plgc.cli.written import Force, check_output

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List or fetch graphs that have a name; describe tables."
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
