"""What commands read: a graph that options name, condensed files. An output that names one of them is refused."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.output import detail, notice, seconds, working
from plgc.runtime.files import same_file

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph

MANIFEST = "manifest.json"  # as in plgc.sources, which --help must not wait for
ROLES = {role: role for role in ("source", "target", "weight", "label", "split")} | {"id": "node_id"}
FEATURE = "feature"


@dataclass(frozen=True)
class GraphOptions:
    """A graph as the command line names it: a name or file, and how to read it, the same in every command."""

    graph: str
    nodes_table: Annotated[
        Path | None,
        typer.Option(
            "--nodes-table", metavar="TABLE", help="For an edge list, the table of its nodes: CSV, TSV, Parquet."
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Which column is what, where a guess is wrong: source, target, weight, id, label, split, feature. "
            "Repeat.",
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether tables begin with a line of names, where a guess is wrong."),
    ] = None
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Give numeric columns mean 0 and variance 1, for unlike units.")
    ] = False
    features: Annotated[
        str | None,
        typer.Option(metavar="fastrp:WIDTH", help="Derive features from the edges, in place of the graph's own."),
    ] = None
    features_seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed of derived features; by default 0.")
    ] = None

    def __post_init__(self) -> None:
        if self.features_seed is not None and self.features is None:
            raise typer.BadParameter("--features-seed is for derived features: give --features with it")
        self._roles()

    @property
    def plain(self) -> bool:
        """Whether the graph is named without options on how to read it."""
        tables = self.nodes_table or self.column or self.standardize or self.header is not None
        return not (tables or self.features)

    @property
    def table_options(self) -> list[str]:
        """The options on tables as they are typed, without folders. (Files record how features were derived.)"""
        table = [] if self.nodes_table is None else ["--nodes-table", self.nodes_table.name]
        columns = [word for text in self.column or () for word in ("--column", text)]
        header = [] if self.header is None else ["--header" if self.header else "--no-header"]
        return [*table, *columns, *header, *(["--standardize"] if self.standardize else [])]

    def files(self) -> list[Path]:
        """The files that the graph is read from."""
        from plgc.graphs.load import graph_files

        return [*(graph_files(self.graph) if self.graph else ()), *([self.nodes_table] if self.nodes_table else ())]

    def open(self) -> Data:
        """Read the graph before one of its splits is chosen, and print what was guessed."""
        from plgc.graphs import TableColumns
        from plgc.graphs.attributes import attribute
        from plgc.graphs.load import open_graph

        start, columns = (
            time.perf_counter(),
            TableColumns(**self._roles(), standardize=self.standardize, header=self.header),
        )
        with working() as progress:
            progress(f"reading {self.graph}", 0, 1)
            data = open_graph(
                self.graph,
                nodes_table=self.nodes_table,
                columns=None if columns == TableColumns() else columns,
                features=self.features,
                features_seed=self.features_seed or 0,
            )
        for note in attribute(data, "notes", ()):
            notice(note)
        counts = f"{data.num_nodes} nodes, {data.num_edges // 2} edges, {data.num_features} features"
        detail(f"{data.name}: {counts}, read in {seconds(time.perf_counter() - start)}")
        return data

    def load(self, split: int = 0, seed: int = 0) -> Data:
        """Read the graph with one of its splits, and print what was guessed."""
        from plgc.graphs.load import choose_split

        return choose_split(self.open(), split, seed)

    def _roles(self) -> dict[str, Any]:
        """The columns by their role, as :class:`plgc.graphs.TableColumns` takes them."""
        found: dict[str, Any] = {}
        for text in self.column or ():
            role, equals, name = text.partition("=")
            if not equals or not name or role not in (*ROLES, FEATURE):
                near = difflib.get_close_matches(role, (*ROLES, FEATURE), n=1)
                hint = f" Did you mean {near[0]}=…?" if near and equals else ""
                known = ", ".join((*ROLES, FEATURE))
                raise typer.BadParameter(f"--column is {text!r}: give ROLE=NAME, the role one of {known}.{hint}")
            if role == FEATURE:
                found.setdefault("features", []).append(name)
            elif ROLES[role] in found:
                raise typer.BadParameter(f"--column {role}= is given twice: only feature= may be repeated")
            else:
                found[ROLES[role]] = name
        return found


def check_features(condensed: Iterable[CondensedGraph], data: Data) -> None:
    """Raise unless the graph's features were derived as those of the condensed graphs, or neither were."""
    from plgc.graphs.derive import check_derived

    for part in condensed:
        check_derived(part.seen.derived, data, "this condensed graph")


def check_not_input(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Usage error where a file to be written is, under whatever path or link, one that the command reads."""
    read = list(inputs)
    for output in outputs:
        if (given := next((path for path in read if same_file(output, path)), None)) is not None:
            raise typer.BadParameter(
                f"the output {output} is {given}, which this command reads: it would be lost. Name another place to "
                "write to"
            )


def source_files(paths: Iterable[Path]) -> list[Path]:
    """The files that condensed graphs and runs are read from; of a folder, those that are read in it."""
    from plgc.experiments.records import FILE as RECORDS
    from plgc.sources import read_manifest

    found: list[Path] = []
    for path in paths:
        folder = path.parent if path.name == MANIFEST else path
        found += [path, folder / MANIFEST, folder / RECORDS]
        if (folder / MANIFEST).is_file():
            found += [folder / entry.file for entry in read_manifest(folder).sources]
    return found
