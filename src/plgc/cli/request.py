"""What is asked of ``plgc condense``, in groups that belong together, and what it reports of every file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plgc.cli.graph import Named
from plgc.cli.options import Condenser, Edges, Engine, Partition, Preset
from plgc.runtime.errors import SettingError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph


@dataclass(frozen=True)
class View:
    """What of a graph the condensation gets to see."""

    edges: Edges
    edge_seed: int
    inductive: bool
    split: int

    def check(self) -> None:
        """Usage errors of these options among themselves."""
        if self.inductive and self.edges is Edges.train:
            raise typer.BadParameter(
                "give --inductive or --edges train, not both: unseen nodes bring unseen edges already"
            )
        if self.edge_seed and self.edges is Edges.all:
            raise typer.BadParameter("--edge-seed chooses an edge split: give --edges train with it")

    @property
    def whole(self) -> bool:
        """Whether all nodes and edges are seen."""
        return self.edges is Edges.all and not self.inductive

    def of(self, data: Data) -> Data:
        """The part of a graph that is seen."""
        from plgc.graphs import training_edges, training_subgraph
        from plgc.graphs.derive import derived_of

        if self.edges is Edges.train and derived_of(data) is not None:
            raise SettingError(
                "the features are derived from all edges, those to be hidden too: give --features or --edges train, "
                "not both"
            )
        if self.inductive:
            return training_subgraph(data)
        return training_edges(data, self.edge_seed) if self.edges is Edges.train else data


@dataclass(frozen=True)
class Guard:
    """What a file is to hold back; None where it was not asked for."""

    min_cluster: int | None = None
    max_share: float | None = None
    clip: float | None = None
    noise: float | None = None
    fingerprint: bool | None = None

    def given(self) -> dict[str, Any]:
        """What was asked for, as arguments."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Several:
    """What only several sources have; None where it was not asked for."""

    parts: int | None = None
    partition: Partition | None = None
    alpha: float | None = None
    halo: int | None = None
    names: str | None = None
    shared_seed: bool | None = None
    engine: Engine | None = None
    address: str | None = None
    workers: int | None = None
    cpus: int | None = None
    gpus: float | None = None

    def given(self, *names: str) -> dict[str, Any]:
        """What was asked for, of these or of all, as arguments."""
        values = {name: getattr(self, name) for name in names or self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Request:
    """Everything asked of one call."""

    graphs: list[str]
    named: Named  # the first of them, and how to read it
    output: Path
    ratio: float | None
    nodes: int | None
    seed: int
    preset: Preset
    method: Condenser
    device: str
    threads: int | None
    checkpoint: Path | None
    memory: str | None
    precision: str | None
    view: View
    guard: Guard
    several: Several

    @property
    def limits(self) -> dict[str, Any]:
        """What was asked of the computation, as arguments."""
        given = {"memory": self.memory, "precision": self.precision}
        return {name: value for name, value in given.items() if value is not None}


def report(
    path: Path, graph: str, condensed: CondensedGraph, seconds: float, peak_memory_bytes: int | None
) -> dict[str, Any]:
    """What is said of a file that was made, in JSON."""
    explained = condensed.curves.get("explained", [])
    return {
        "artifact": str(path),
        "graph": graph,
        "method": condensed.method,
        "nodes": condensed.num_nodes,
        "nodes_requested": condensed.nodes_requested,
        "ratio": condensed.num_nodes / condensed.source["nodes"],
        "seen": condensed.seen,
        "seed": condensed.seed,
        "preset": condensed.settings.get("preset"),
        "threads": condensed.threads,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory_bytes,
        "bytes": path.stat().st_size,
        "explained_variance": explained[-1] if explained else None,
        "rounds": len(explained),
        "batch_nodes": condensed.chosen.get("batch_nodes"),
    }
