"""Optional attributes of a graph, and what of a larger graph it is: ``seen``.

A condensation records what it was shown; that travels with the graph, and with the file that is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch_geometric.data import Data

from plgc.graphs.preprocessing import Preprocessing


def attribute(graph: Data, name: str, default: Any = None) -> Any:
    """An attribute of a graph; ``default`` where it is missing or None."""
    return graph[name] if name in graph else default  # noqa: SIM401 (Data has no get)


@dataclass(frozen=True)
class Seen:
    """What was seen of a graph; scores on anything that was seen too much of are refused.

    Attributes:
        nodes: ``all``, or ``train`` for the training nodes alone (inductive).
        edges: ``all``, or ``train`` for the training edges alone (link prediction).
        edge_seed: which edge split, with ``edges="train"``.
        training_nodes: a digest of the training nodes, with ``nodes="train"``.
        split: which of the graph's fixed splits these belong to.
        split_seed: of a generated split.
        derived: how features were derived from edges (:mod:`plgc.graphs.derive`); None for features of the graph's own.
        preprocessing: how the columns of a table became features; None for features that came as a matrix.
    """

    nodes: str = "all"
    edges: str = "all"
    edge_seed: int | None = None
    training_nodes: str | None = None
    split: int | None = None
    split_seed: int | None = None
    derived: dict[str, Any] | None = None
    preprocessing: Preprocessing | None = None

    def __getitem__(self, name: str) -> Any:
        """A value that is not None, as of the dictionary that this was before."""
        return self.to_dict()[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is None is left out."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["preprocessing"] = None if self.preprocessing is None else self.preprocessing.to_dict()
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Seen:
        """Read back what :meth:`to_dict` gave.

        Raises:
            ValueError: a value is unknown, missing or of the wrong kind.
        """
        unknown = sorted(set(map(str, values)) - {item.name for item in fields(Seen)})
        if unknown:
            raise ValueError(f"it has seen {unknown[0]!r}, which is unknown")
        seen = Seen(**values)
        if not isinstance(seen.preprocessing, Preprocessing | None):
            seen = replace(seen, preprocessing=Preprocessing.from_dict(seen.preprocessing))
        for part in ("nodes", "edges"):
            if values.get(part) not in ("all", "train"):
                raise ValueError(f"it says {values.get(part)!r} of the {part} it has seen, not 'all' or 'train'")
        needed: dict[str, type] = {"edge_seed": int} if seen.edges == "train" else {}
        if seen.nodes == "train" or seen.training_nodes is not None:
            needed |= {"training_nodes": str, "split": int, "split_seed": int}
        for name, kind in needed.items():
            if type(getattr(seen, name)) is not kind:
                raise ValueError(f"{name} of what it has seen is {getattr(seen, name)!r}")
        return seen


ALL = Seen()


def seen_of(graph: Data) -> Seen:
    """What a graph is of a larger one: its ``seen``, or all of it."""
    seen = attribute(graph, "seen", ALL)
    return seen if isinstance(seen, Seen) else Seen.from_dict(seen)
