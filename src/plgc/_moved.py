"""Documented modules under the names they had before the packages were put in order: imports of these still work.

An old name gives the module that has its contents now, with a DeprecationWarning that says where it is.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "errors": "runtime.errors",
    "config": "method.settings",
    "export": "artifact.export",
    "methods": "rivals.methods",
    "privacy": "method.release",
    "multisource": "sources",
    "multisource.run": "sources.folder",
    "multisource.recipe": "sources",
    "engine": "sources.engine",
    "combine": "downstream.combine",
    "backbone": "downstream.backbone",
    "models": "downstream.models",
    "tasks": "downstream.tasks",
    "tasks.node": "downstream.models",
    "tasks.link_model": "downstream.models",
    "tasks.head": "downstream.head",
    "estimator": "downstream.estimator",
    "graphs.columns": "graphs.formats.columns",
    "graphs.npz": "graphs.formats.npz",
    "graphs.edges": "graphs.views.edges",
    "graphs.inductive": "graphs.views.inductive",
    "graphs.noise": "graphs.views.noise",
    "graphs.splits": "graphs.views.splits",
    "graphs.partition": "graphs.views.partition",
    "graphs.stored": "graphs.formats.stored",
    "protocol": "graphs.views.protocol",
    "learn": "evaluation.scoring",
    "theory": "evaluation.theory",
    "membership": "evaluation.membership",
    "inputs": "sparse.inputs",
    "propagate": "sparse.adjacency",
    "encoder": "method.encoder",
    "sinkhorn": "method.sinkhorn",
    "pseudo_labels": "method.stage_one",
    "checkpoint": "runtime.checkpoint",
    "progress": "runtime.progress",
    "files": "runtime.files",
    "baselines": "rivals",
    "baselines.result": "rivals.frame",
    "references": "rivals.controls",
}


def new_name(name: str) -> str | None:
    """Where a module ``plgc.OLD`` is now; None where it has not moved. A package takes its modules along."""
    old, rest = name.removeprefix("plgc."), ""
    while old:
        if old in MOVED:
            return f"plgc.{MOVED[old]}{rest}"
        old, dot, last = old.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return None


class MovedModules:
    """An importer, asked first, that answers to the old names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for ``plgc.OLD``; None for every other name."""
        moved = name.startswith("plgc.") and new_name(name) is not None
        return ModuleSpec(name, self) if moved else None  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: ModuleSpec) -> None:
        """Nothing of its own."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of the old one."""
        new = new_name(module.__name__)
        assert new is not None
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)
