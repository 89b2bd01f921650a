"""Files that are made from other files, as calls that the store keeps: updated, forgotten, merged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.merge import merge
from plgc.experiments.store import Condensation, digest
from plgc.method.forget import forget
from plgc.method.update import update


@dataclass(frozen=True)
class UpdateCall:
    """The file of a grown graph from the file before.

    Attributes:
        before: the old file.
        view: gives the grown graph or, with ``only_new``, the part that arrived with its halo.
        name: says what that graph is; a chain that was made before is found by it, without building its graphs.
        nodes: K.
        seed: drives everything.
        only_new: whether the old graph is at hand no more.
    """

    before: Condensation
    view: Callable[[], Data]
    name: str
    nodes: int
    seed: int
    only_new: bool = False

    def key(self, device: str) -> str:
        """A digest of everything that the result depends on."""
        how = "only-new" if self.only_new else "update"
        parts = {"how": how, "before": self.before.sha256, "graph": self.name, "nodes": self.nodes, "seed": self.seed}
        return digest(parts, device)

    @cached_property
    def graph(self) -> Data:
        """The grown graph, or its new part."""
        return self.view()

    def open(self) -> None:
        """Cut the graph out of the whole one."""
        _ = self.graph

    def make(self, device: str, checkpoint: Path | None) -> CondensedGraph:
        """Update."""
        return update(
            self.before.condensed,
            self.graph,
            nodes=self.nodes,
            seed=self.seed,
            device=device,
            checkpoint=checkpoint,
            progress=False,
            only_new=self.only_new,
        )


@dataclass(frozen=True)
class ForgetCall:
    """The file of a graph that some nodes have left: ``gone``, numbers in the graph that ``before`` was made of."""

    before: Condensation
    graph: Data
    gone: Tensor
    nodes: int
    seed: int

    def key(self, device: str) -> str:
        """A digest of everything that the result depends on."""
        gone = hashlib.sha256(self.gone.numpy().tobytes()).hexdigest()
        parts = {"how": "short", "before": self.before.sha256, "gone": gone, "nodes": self.nodes, "seed": self.seed}
        return digest(parts, device)

    def open(self) -> None:
        """Everything is here."""

    def make(self, device: str, checkpoint: Path | None) -> CondensedGraph:
        """Forget; a private file has no fingerprint, but is known to be of this graph."""
        return forget(
            self.before.condensed,
            self.graph,
            self.gone,
            unchecked=self.before.condensed.fingerprint is None,
            nodes=self.nodes,
            seed=self.seed,
            device=device,
            checkpoint=checkpoint,
            progress=False,
        )


@dataclass(frozen=True)
class MergeCall:
    """One file of several."""

    files: Sequence[Condensation]
    nodes: int
    seed: int

    def key(self, device: str) -> str:
        """A digest of everything that the result depends on."""
        files = [file.sha256 for file in self.files]
        return digest({"how": "merge", "files": files, "nodes": self.nodes, "seed": self.seed}, device)

    def open(self) -> None:
        """Everything is here."""

    def make(self, device: str, checkpoint: Path | None) -> CondensedGraph:
        """Merge; it is too quick for checkpoints."""
        files = [file.condensed for file in self.files]
        return merge(files, nodes=self.nodes, seed=self.seed, device=device, progress=False)
