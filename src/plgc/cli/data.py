"""``plgc data list`` and ``plgc data get``: the graphs that have a name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from plgc.cli.options import Json, examples, takes
from plgc.cli.output import show, table

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List the graphs that have a name, or fetch one.")


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
