"""What commands read: a graph that options name, condensed files. An output that names one of them is refused."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.options import Decimal
from plgc.cli.output import detail, notice, seconds, warn, working
from plgc.runtime.errors import GraphError
from plgc.runtime.files import same_file

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs import TableColumns
    from plgc.sources import OpenSource

MANIFEST = "manifest.json"  # as in plgc.sources, which --help must not wait for
ROLES = {role: role for role in ("source", "target", "weight", "label", "split")} | {"id": "node_id"}
FEATURE = "feature"


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How tables are read, the same in every command."""

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
    scale: Annotated[
        bool | None,
        typer.Option(
            "--scale/--no-scale",
            help="Scale numeric columns of tables by median and quartiles; by default they are.",
        ),
    ] = None
    decimal: Annotated[
        Decimal | None, typer.Option(help="What stands before decimals, where a table leaves open what 1,234 is.")
    ] = None
    until: Annotated[
        float | None,
        typer.Option(metavar="YEAR", help="The graph as it was then: nodes that came up to this time."),
    ] = None
    since: Annotated[
        float | None,
        typer.Option(metavar="YEAR", help="What came after this time, and two hops of older nodes as a halo."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --until and --since: what says when nodes came; by default 'year'."),
    ] = None


@dataclass(frozen=True)
class GraphOptions(TableOptions):
    """A graph as the command line names it: a name or file, and how to read it, the same in every command."""

    graph: str
    nodes_table: Annotated[
        Path | None,
        typer.Option(
            "--nodes-table", metavar="TABLE", help="For an edge list, the table of its nodes: CSV, TSV, Parquet."
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(metavar="fastrp:WIDTH", help="Derive features from the edges, in place of the graph's own."),
    ] = None
    features_seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed of derived features; by default 0.")
    ] = None
    known: Any = None  # how another table became features (Preprocessing): this one is read in the same way
    rare: int = 1  # words of fewer rows have no column of their own

    def __post_init__(self) -> None:
        if self.features_seed is not None and self.features is None:
            raise typer.BadParameter("--features-seed is for derived features: give --features with it")
        if self.time is not None and self.until is None and self.since is None:
            raise typer.BadParameter("--time names what --until and --since go by: give one of them with it")
        self._roles()

    @property
    def plain(self) -> bool:
        """Whether the graph is named without options on how to read it."""
        tables = self.nodes_table or self.column or self.decimal or self.known
        given = (self.header, self.scale, self.until, self.since)
        return not (tables or self.features or any(value is not None for value in given))

    @property
    def table_options(self) -> list[str]:
        """The options on tables as they are typed, without folders. (Files record how features were derived.)"""
        table = [] if self.nodes_table is None else ["--nodes-table", self.nodes_table.name]
        columns = [word for text in self.column or () for word in ("--column", text)]
        header = [] if self.header is None else ["--header" if self.header else "--no-header"]
        scale = [] if self.scale is None else ["--scale" if self.scale else "--no-scale"]
        decimal = [] if self.decimal is None else ["--decimal", str(self.decimal)]
        until = [] if self.until is None else ["--until", f"{self.until:g}"]
        since = [] if self.since is None else ["--since", f"{self.since:g}"]
        time = [] if self.time is None else ["--time", self.time]
        return [*table, *columns, *header, *scale, *decimal, *until, *since, *time]

    def files(self) -> list[Path]:
        """The files that the graph is read from."""
        from plgc.graphs.load import graph_files

        return [*(graph_files(self.graph) if self.graph else ()), *([self.nodes_table] if self.nodes_table else ())]

    def as_in(self, known: Any) -> GraphOptions:
        """The same graph, its table read as the one of a file or model: by its ``Preprocessing``, or None."""
        return replace(self, known=known)

    def columns(self) -> TableColumns:
        """How tables are read."""
        from plgc.graphs import TableColumns

        decimal = None if self.decimal is None else {"comma": ",", "point": "."}[self.decimal]
        return TableColumns(
            **self._roles(),
            scale=self.scale,
            rare=self.rare,
            decimal=decimal,
            preprocessing=self.known,
            header=self.header,
        )

    def open(self) -> Data:
        """Read the graph before one of its splits is chosen, and print what was guessed, what is doubtful first."""
        from plgc.graphs import TableColumns
        from plgc.graphs.attributes import attribute
        from plgc.graphs.load import open_graph

        start, columns = time.perf_counter(), self.columns()
        with working() as progress:
            progress(f"reading {self.graph}", 0, 1)
            data = open_graph(
                self.graph,
                nodes_table=self.nodes_table,
                columns=None if columns == TableColumns() else columns,
                features=self.features,
                features_seed=self.features_seed or 0,
                until=self.until,
                since=self.since,
                time=self.time,
            )
        warn(attribute(data, "doubts", ()))
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
    """Raise unless the graph's features were made as those of the condensed graphs."""
    from plgc.graphs.derive import check_derived

    for part in condensed:
        check_derived(part.seen.derived, data, "this condensed graph")
        check_table(part.seen.preprocessing, data, "this condensed graph")


def check_table(made: Any, data: Data, what: str) -> None:
    """Raise unless a graph comes from a table where a file or model does, and its columns became features alike."""
    from plgc.graphs.attributes import seen_of
    from plgc.graphs.preprocessing import check_preprocessing

    own = seen_of(data).preprocessing
    if made is not None and own is None:
        raise GraphError(
            f"{what} was made from a table, whose columns it describes, and {data.name} brings no table of nodes: give "
            "the edge list and its --nodes-table"
        )
    check_preprocessing(made, own, what)


def shared_preprocessing(sources: Iterable[OpenSource]) -> Any:
    """How the tables of these files became features; an error names two that differ."""
    from plgc.graphs.preprocessing import common_preprocessing

    return common_preprocessing([(source.name, source.condensed.seen.preprocessing) for source in sources])


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
