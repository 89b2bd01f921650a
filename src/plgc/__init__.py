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
import warnings
from typing import TYPE_CHECKING, Any

from plgc._moved import MovedModules
from plgc._version import __version__

if TYPE_CHECKING:
    from plgc.artifact.condensed import CondensedGraph
    from plgc.downstream.backbone import Backbone, reconstruct
    from plgc.downstream.estimator import PLGCClassifier
    from plgc.downstream.export import export_model
    from plgc.downstream.merge import merge
    from plgc.downstream.models import LinkModel, NodeModel, finetune, load_model
    from plgc.graphs import load_graph
    from plgc.method.condense import condense
    from plgc.method.forget import forget
    from plgc.method.update import update
    from plgc.runtime.errors import PLGCError
    from plgc.sources import condense_parts, condense_sources, load_sources

# Has to be set before torch starts its threads. They wait for each other many times per step, by default in a busy
# loop: on a core shared with another job that makes two threads several times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Large tensors on huge pages: products that gather rows from all over a large matrix take half the time.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# torch says this once per process about every CSR tensor; it is about torch's API, not about the user's graph.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning)

# A notebook without widgets gets bars of text; torch_geometric and we import tqdm, which would say so.
warnings.filterwarnings("ignore", message="IProgress not found")

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
    "export_model",
    "finetune",
    "forget",
    "load_graph",
    "load_model",
    "load_sources",
    "merge",
    "reconstruct",
    "update",
]

# Where each name is; it is imported when it is asked for, so that ``plgc --help`` need not wait for torch.
_HOME = {
    "Backbone": "plgc.downstream.backbone",
    "CondensedGraph": "plgc.artifact",
    "LinkModel": "plgc.downstream.models",
    "NodeModel": "plgc.downstream.models",
    "PLGCClassifier": "plgc.downstream.estimator",
    "PLGCError": "plgc.runtime.errors",
    "condense": "plgc.method.condense",
    "condense_parts": "plgc.sources",
    "condense_sources": "plgc.sources",
    "export_model": "plgc.downstream.export",
    "finetune": "plgc.downstream.models",
    "forget": "plgc.method.forget",
    "load_graph": "plgc.graphs",
    "load_model": "plgc.downstream.models",
    "load_sources": "plgc.sources",
    "merge": "plgc.downstream.merge",
    "reconstruct": "plgc.downstream.backbone",
    "update": "plgc.method.update",
}

sys.meta_path.insert(0, MovedModules())


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
