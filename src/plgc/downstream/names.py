"""Names of classes and features that a model keeps, and how its features were made.

A model reports classes by name, and refuses a graph whose feature columns have another meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from torch_geometric.data import Data

from plgc.graphs.attributes import attribute, seen_of
from plgc.graphs.derive import check_derived, checked_mark, derived_of
from plgc.graphs.preprocessing import Preprocessing, check_preprocessing
from plgc.runtime.errors import GraphError
from plgc.runtime.schema import FreeText, Size

MAX_LENGTH = 2**20  # characters of a list of names in a file; longer lists are not kept


@dataclass(frozen=True)
class Names:
    """Names that a model keeps; None for those that the graph does not have.

    Attributes:
        classes: of the classes, in the order of their numbers.
        features: of the feature columns, in order.
        derived: how the features were derived from edges, see :func:`plgc.graphs.derive.derived_of`.
        preprocessing: how the columns of a table became features.
    """

    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    derived: Mapping[str, Any] | None = None
    preprocessing: Preprocessing | None = None

    @staticmethod
    def of(graph: Data, classes: int | None = None) -> Names:
        """The names of a graph: of its features and, where ``classes`` are learned, of these."""
        labels = attribute(graph, "class_names")
        labels = None if classes is None or labels is None else labels[:classes]
        table = seen_of(graph).preprocessing
        return Names(_kept(labels), _kept(attribute(graph, "feature_names")), derived_of(graph), table)

    def to_header(self) -> dict[str, Any]:
        """The names as plain values."""
        table = None if self.preprocessing is None else self.preprocessing.to_dict()
        return {"classes": self.classes, "features": self.features, "derived": self.derived, "preprocessing": table}

    def check(self, graph: Data) -> None:
        """Raise :class:`GraphError` where the graph's features are called, ordered or derived otherwise."""
        check_derived(self.derived, graph, "this model")
        check_preprocessing(self.preprocessing, seen_of(graph).preprocessing, "this model")
        if graph.x is None and self.features is not None:
            shown = ", ".join(repr(name) for name in self.features[:4])
            raise GraphError(
                f"the graph has no features, the model learned from {len(self.features)} (first {shown}): give "
                "an edge list its node table (--nodes-table)"
            )
        theirs = attribute(graph, "feature_names")
        if self.features is None or theirs is None or self.features == tuple(theirs):
            return
        if len(theirs) != len(self.features):
            missing = [name for name in self.features if name not in set(theirs)]
            what = f"there are {len(theirs)}, not {len(self.features)}"
            what += f", and {missing[0]!r} is not among them" if missing else ""
        else:
            place = next(i for i, name in enumerate(self.features) if name != theirs[i])
            what = f"column {place + 1} is {theirs[place]!r}, the model has {self.features[place]!r} there"
        raise GraphError(
            f"the graph's feature columns are not the model's: {what}. Give it the model's, in their order; a "
            "table is brought to them by TableColumns(preprocessing=model.names.preprocessing)"
        )

    def check_classes(self, graph: Data) -> None:
        """Raise :class:`GraphError` where the graph's classes have other names."""
        theirs = attribute(graph, "class_names")
        if self.classes is not None and theirs is not None and self.classes != tuple(theirs[: len(self.classes)]):
            raise GraphError(
                f"the graph's classes are {', '.join(theirs[:8])}, the model's {', '.join(self.classes[:8])}: load the "
                "graph with TableColumns(classes=model.names.classes)"
            )


NAMELESS = Names()


def _kept(names: Sequence[str] | None) -> tuple[str, ...] | None:
    fits = names is not None and len(json.dumps(list(names))) <= MAX_LENGTH
    return tuple(names) if fits and names is not None else None


Listed = tuple[Annotated[str, FreeText(), Size(0, MAX_LENGTH)], ...]


@dataclass(frozen=True)
class NamesRecord:
    """Names as a model file has them; they may hold any character, and are escaped where they are shown."""

    classes: Listed | None = None
    features: Listed | None = None
    derived: dict[str, Any] | None = None
    preprocessing: Preprocessing | None = None

    def checked(self, features: int, classes: int | None) -> Names:
        """The names of a model with so many features and classes; raises ValueError where there are more or fewer."""
        for what, names, count in (("classes", self.classes, classes), ("features", self.features, features)):
            if names is not None and len(names) != count:
                raise ValueError(f"it has {len(names)} names for {count or 0} {what}")
        table = self.preprocessing
        if table is not None and len(table.features) != features:
            raise ValueError(f"it describes {len(table.features)} features of a table, and has {features}")
        mark = None if self.derived is None else checked_mark(self.derived)
        return Names(self.classes, self.features, mark, table)
