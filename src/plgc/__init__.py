"""Pseudo-Labeled Graph Condensation: shrink a graph without labels, rebuild a GNN from what is left.

>>> import plgc
>>> graph = plgc.load_graph("demo")
>>> condensed = plgc.condense(graph, ratio=0.026)     # never reads graph.y   # doctest: +SKIP
>>> backbone = plgc.reconstruct(condensed)            # doctest: +SKIP
>>> model = plgc.finetune(backbone, graph, shots=3)   # doctest: +SKIP
>>> model.evaluate(graph)                             # doctest: +SKIP
"""

import os
import warnings
from typing import TYPE_CHECKING

# Has to be set before torch starts its threads. They wait for each other many times per step, by default in a busy
# loop: on a core shared with another job that makes two threads several times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# torch says this once per process about every CSR tensor; it is about torch's API, not about the user's graph.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning)

from plgc._version import __version__  # noqa: E402
from plgc.artifact import CondensedGraph  # noqa: E402
from plgc.backbone import Backbone, reconstruct  # noqa: E402
from plgc.condense import condense  # noqa: E402
from plgc.errors import PLGCError  # noqa: E402
from plgc.graphs import load_graph  # noqa: E402
from plgc.models import finetune, load_model  # noqa: E402
from plgc.multisource import condense_parts, condense_sources, load_sources  # noqa: E402
from plgc.tasks.link_model import LinkModel  # noqa: E402
from plgc.tasks.node import NodeModel  # noqa: E402

if TYPE_CHECKING:
    from plgc.estimator import PLGCClassifier

__all__ = [
    "Backbone",
    "CondensedGraph",
    "LinkModel",
    "NodeModel",
    "PLGCClassifier",
    "PLGCError",
    "__version__",
    "condense",
    "condense_parts",
    "condense_sources",
    "finetune",
    "load_graph",
    "load_model",
    "load_sources",
    "reconstruct",
]


def __getattr__(name: str) -> object:
    """What needs an extra is imported when it is asked for."""
    if name == "PLGCClassifier":
        from plgc.estimator import PLGCClassifier

        return PLGCClassifier
    raise AttributeError(f"module 'plgc' has no attribute {name!r}")
