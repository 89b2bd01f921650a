"""What ``plgc train`` and ``plgc evaluate`` have in common: condensed files, and how a model is made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import GraphOptions, check_features, shared_preprocessing
from plgc.cli.options import (
    Backbone,
    Combination,
    Device,
    DiskOptions,
    Kind,
    Shots,
    Split,
    TaskName,
    at_most_one,
    check_device,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.downstream.backbone import Backbone as BackboneModel
    from plgc.downstream.from_disk import Work
    from plgc.runtime.progress import Progress
    from plgc.sparse.stored_inputs import StoredGraphs

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Files made by 'plgc condense', or folders of them with a manifest."),
]


@dataclass(frozen=True)
class ModelOptions:
    """How models are rebuilt from condensed files and fine-tuned."""

    task: Annotated[TaskName, typer.Option(help="What to fine-tune for.")] = TaskName.node
    shots: Shots = None
    labels: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use N training labels in all, evenly over the classes.")
    ] = None
    combine: Annotated[
        Combination | None,
        typer.Option(
            help="How several sources are combined; default heads, parts of a graph merged, preset paper sum."
        ),
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="W,W", help="Weights of the sources, in their order; only ratios matter.")
    ] = None
    backbone: Backbone = Kind.gcn
    split: Split = 0
    device: Device = "cpu"

    def __post_init__(self) -> None:
        at_most_one(shots=self.shots, labels=self.labels)
        if self.task != TaskName.node and (self.shots is not None or self.labels is not None):
            raise typer.BadParameter(f"--shots and --labels are for --task node, not {self.task}")
        self._numbers()

    def _numbers(self) -> list[float] | None:
        try:
            return None if self.weights is None else [float(word) for word in self.weights.split(",")]
        except ValueError as error:
            raise typer.BadParameter(
                f"--weights is {self.weights!r}: give one number per source, such as 1,2,1"
            ) from error

    def read(self, files: list[Path], named: GraphOptions) -> tuple[list[CondensedGraph], dict[str, Any], Data]:
        """The condensed graphs in files and folders, how they are combined, and the graph, before a split is chosen.

        Weights are those given, else those of the manifests where they differ.
        """
        from plgc.sources import default_combination, open_sources

        check_device(self.device)
        sources = open_sources(files)
        condensed, listed = [source.condensed for source in sources], [source.weight for source in sources]
        graph = named.as_in(shared_preprocessing(sources)).open()
        check_features(condensed, graph)
        weights = self._numbers() or (listed if len(set(listed)) > 1 else None)
        combine = self.combine or default_combination(sources, weighted=weights is not None)
        return condensed, {"combine": combine, "weights": weights}, graph


def check_disk(options: ModelOptions, disk: DiskOptions) -> None:
    """Refuse --memory for tasks that have the graph in memory."""
    if options.task != TaskName.node and disk.memory is not None:
        raise typer.BadParameter(f"--memory is for --task node, --task {options.task} has the graph in memory")


@contextlib.contextmanager
def place(
    backbone: BackboneModel, data: Data, work: Work, disk: DiskOptions, beside: Path, progress: Progress
) -> Iterator[StoredGraphs | None]:
    """A place for the work on a graph that stays on disk; None for one in memory."""
    from plgc.downstream.from_disk import from_disk, stays_on_disk
    from plgc.downstream.models import check_from_disk

    if disk.memory is None or not stays_on_disk(data, work, disk.memory):
        yield None
        return
    check_from_disk(backbone)
    with from_disk(data, work, disk.memory, disk.scratch or beside, progress) as prepared:
        yield prepared


def sources_text(result: dict[str, Any]) -> str:
    """Of how many sources a model is, where they are several."""
    return f" of {result['sources']} sources" if result["sources"] > 1 else ""
