"""Pseudo-Labeled Graph Condensation: shrink a graph without labels, rebuild a GNN from what is left.

>>> import plgc
>>> graph = plgc.load_graph("demo")
>>> condensed = plgc.condense(graph, nodes=40)        # never reads graph.y
>>> backbone = plgc.reconstruct(condensed)
>>> model = plgc.finetune(backbone, graph, shots=3)
>>> sorted(model.evaluate(graph))
['accuracy', 'macro_f1']
"""

import importlib
import importlib.util
import os
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from plgc._version import __version__

if TYPE_CHECKING:
    from plgc.artifact import CondensedGraph
    from plgc.backbone import Backbone, reconstruct
    from plgc.condense import condense
    from plgc.errors import PLGCError
    from plgc.estimator import PLGCClassifier
    from plgc.graphs import load_graph
    from plgc.models import finetune, load_model
    from plgc.multisource import condense_parts, condense_sources, load_sources
    from plgc.tasks.link_model import LinkModel
    from plgc.tasks.node import NodeModel

# Has to be set before torch starts its threads. They wait for each other many times per step, by default in a busy
# loop: on a core shared with another job that makes two threads several times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Large tensors on huge pages: products that gather rows from all over a large matrix take half the time.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# torch says this once per process about every CSR tensor; it is about torch's API, not about the user's graph.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning)

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

# Where each name is; it is imported when it is asked for, so that ``plgc --help`` need not wait for torch.
_HOME = {
    "Backbone": "plgc.backbone",
    "CondensedGraph": "plgc.artifact",
    "LinkModel": "plgc.tasks.link_model",
    "NodeModel": "plgc.tasks.node",
    "PLGCClassifier": "plgc.estimator",
    "PLGCError": "plgc.errors",
    "condense": "plgc.condense",
    "condense_parts": "plgc.multisource",
    "condense_sources": "plgc.multisource",
    "finetune": "plgc.models",
    "load_graph": "plgc.graphs",
    "load_model": "plgc.models",
    "load_sources": "plgc.multisource",
    "reconstruct": "plgc.backbone",
}


class _Package(types.ModuleType):
    """The package; ``plgc.condense`` stays the function when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOME or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, at its first use."""
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and importlib.util.find_spec(f"plgc.{name}") is not None:
        return importlib.import_module(f"plgc.{name}")
    raise AttributeError(f"module 'plgc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
