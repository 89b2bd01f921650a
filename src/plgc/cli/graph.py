"""A graph as a command line names it: a name or file, and options on how to read it, the same in every command."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plgc.cli.messages import detail, notice, working
from plgc.cli.output import seconds

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs import TableColumns

ROLES = {role: role for role in ("source", "target", "weight", "label", "split")} | {"id": "node_id"}
FEATURE = "feature"


@dataclass(frozen=True)
class Named:
    """What the options say of a graph."""

    graph: str
    nodes_table: Path | None = None
    column: list[str] | None = None
    standardize: bool = False
    features: str | None = None
    features_seed: int | None = None

    @property
    def plain(self) -> bool:
        """Whether the name alone says everything."""
        return not (self.nodes_table or self.column or self.standardize or self.features)

    @property
    def reading(self) -> list[str]:
        """The options on tables, without folders; how features are derived, a condensed file says itself."""
        table = [] if self.nodes_table is None else ["--nodes-table", self.nodes_table.name]
        columns = [word for text in self.column or () for word in ("--column", text)]
        return [*table, *columns, *(["--standardize"] if self.standardize else [])]

    def check(self) -> None:
        """Usage errors of these options among themselves."""
        if self.features_seed is not None and self.features is None:
            raise typer.BadParameter("--features-seed is for derived features: give --features with it")
        self._roles()

    def files(self) -> list[Path]:
        """What the graph is read from."""
        from plgc.graphs.load import graph_files

        return [*(graph_files(self.graph) if self.graph else ()), *([self.nodes_table] if self.nodes_table else ())]

    def open(self) -> Data:
        """Read the graph, and say what was guessed. Its split is not chosen yet: ``plgc.load_graph`` does that."""
        from plgc.graphs.attributes import attribute
        from plgc.graphs.load import open_graph

        start = time.perf_counter()
        with working() as progress:
            progress(f"reading {self.graph}", 0, 1)
            data = open_graph(
                self.graph,
                nodes_table=self.nodes_table,
                columns=self._columns(),
                features=self.features,
                features_seed=self.features_seed or 0,
            )
        for note in attribute(data, "notes", ()):
            notice(note)
        detail(f"{described(data)}, read in {seconds(time.perf_counter() - start)}")
        return data

    def load(self, split: int = 0, seed: int = 0) -> Data:
        """Read the graph and choose its split."""
        from plgc.graphs.load import choose_split

        return choose_split(self.open(), split, seed)

    def _columns(self) -> TableColumns | None:
        from plgc.graphs import TableColumns

        given = self._roles()
        return TableColumns(**given, standardize=self.standardize) if given or self.standardize else None

    def _roles(self) -> dict[str, Any]:
        """The columns by their role, as :class:`TableColumns` takes them."""
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


def described(data: Data) -> str:
    """A graph in a line."""
    edges = 0 if data.edge_index is None else data.edge_index.shape[1] // 2
    width = 0 if data.x is None else data.x.shape[1]
    return f"{data.name}: {data.num_nodes} nodes, {edges} edges, {width} features"


def check_features(condensed: Iterable[CondensedGraph], data: Data) -> None:
    """Raise unless the graph's features come from where those of the condensed graphs came from."""
    from plgc.graphs.derive import check_derived

    for part in condensed:
        check_derived(part.seen.get("derived"), data, "this condensed graph")
