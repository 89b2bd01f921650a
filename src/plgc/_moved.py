"""Names that modules had before the packages were put in the order of the data: imports of them still work.

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
    "files": "runtime.files",
    "progress": "runtime.progress",
    "machine": "runtime.provenance",
    "replay": "runtime.replay",
    "mapped": "runtime.mapped",
    "sealed": "runtime.container",
    "checkpoint": "runtime.checkpoint",
    "graphs.npz": "graphs.formats.npz",
    "graphs.stored": "graphs.formats.stored",
    "graphs.unpack": "graphs.formats.npz",
    "graphs.bounded": "graphs.formats.limits",
    "graphs.tables": "graphs.formats.tables",
    "graphs.delimited": "graphs.formats.delimited",
    "graphs.frames": "graphs.formats.frames",
    "graphs.values": "graphs.formats.values",
    "graphs.columns": "graphs.formats.columns",
    "graphs.classes": "graphs.formats.node_columns",
    "graphs.encode": "graphs.formats.node_columns",
    "graphs.convert": "graphs.formats.networkx",
    "graphs.foreign": "graphs.formats",
    "graphs.order": "graphs.standard",
    "graphs.graphml": "graphs.formats.graphml",
    "graphs.splits": "graphs.views.splits",
    "graphs.edges": "graphs.views.edges",
    "graphs.inductive": "graphs.views.inductive",
    "graphs.partition": "graphs.views.partition",
    "graphs.noise": "graphs.views.noise",
    "graphs.shift": "graphs.views.shift",
    "sparse_product": "sparse.product",
    "gpu_product": "sparse.gpu_product",
    "structure": "sparse.adjacency",
    "propagate": "sparse.propagation",
    "locality": "sparse.locality",
    "stored_features": "sparse.features",
    "inputs": "sparse.inputs",
    "export": "artifact.export",
    "config": "method.settings",
    "augment": "method.augment",
    "encoder": "method.encoder",
    "sinkhorn": "method.sinkhorn",
    "pseudo_labels": "method.stage_one",
    "epoch": "method.stage_one",
    "batches": "method.batches",
    "synthesize": "method.stage_two",
    "privacy": "method.release",
    "resume": "method.resume",
    "backbone": "downstream.backbone",
    "combine": "downstream.combine",
    "models": "downstream.models",
    "estimator": "downstream.estimator",
    "tasks.head": "downstream.head",
    "tasks.classifier": "downstream.tasks.classifier",
    "tasks.cluster": "downstream.tasks.cluster",
    "tasks.link": "downstream.tasks.link",
    "tasks.link_model": "downstream.models",
    "tasks.metrics": "downstream.tasks.metrics",
    "tasks.model_file": "downstream.model_file",
    "tasks.names": "downstream.names",
    "tasks.node": "downstream.models",
    "tasks": "downstream.tasks",
    "methods": "rivals.methods",
    "references": "rivals.controls",
    "baselines.result": "rivals.frame",
    "baselines.condensers": "rivals.coreset",
    "baselines.coreset": "rivals.coreset",
    "baselines.coarsen": "rivals.coarsening",
    "baselines.clustering": "rivals.clustering",
    "baselines.partition": "rivals.partition",
    "baselines.distribution": "rivals.distribution",
    "baselines.gradient": "rivals.gradient.condense",
    "baselines.gradient_loop": "rivals.gradient.loop",
    "baselines.gradient_settings": "rivals.gradient.settings",
    "baselines.matching": "rivals.gradient.matching",
    "baselines.trajectory": "rivals.trajectory.condense",
    "baselines.trajectory_settings": "rivals.trajectory.settings",
    "baselines.experts": "rivals.trajectory.experts",
    "baselines.expert_settings": "rivals.trajectory.settings",
    "baselines.student": "rivals.trajectory.student",
    "baselines.gntk": "rivals.trajectory.gntk",
    "baselines.ctgc": "rivals.ctgc.condense",
    "baselines.ctgc_inversion": "rivals.ctgc.inversion",
    "baselines.ctgc_losses": "rivals.ctgc.losses",
    "baselines.ctgc_rebuild": "rivals.ctgc.rebuild",
    "baselines.ctgc_settings": "rivals.ctgc.settings",
    "baselines": "rivals",
    "protocol": "graphs.views.protocol",
    "learn": "evaluation.scoring",
    "theory": "evaluation.theory",
    "membership": "evaluation.membership",
    "multisource.condense": "sources.condense",
    "multisource.manifest": "sources.manifest",
    "multisource.names": "sources.names",
    "multisource.recipe": "sources",
    "multisource.run": "sources.folder",
    "multisource.wanted": "sources.task",
    "multisource.workspace": "sources.workspace",
    "multisource": "sources",
    "engine.cluster": "sources.engine.cluster",
    "engine.processes": "sources.engine.processes",
    "engine.run": "sources.engine.run",
    "engine.tasks": "sources.engine.tasks",
    "engine": "sources.engine",
    "report.projection": "report.facts.projection",
    "report.scores": "report.facts.scores",
    "report.text": "report.formatting",
    "figures": "demo.figure",
}


class MovedModules:
    """An importer, asked first, that answers to the old names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for ``plgc.OLD``; None for every other name."""
        return ModuleSpec(name, self) if name.removeprefix("plgc.") in MOVED else None  # pyright: ignore

    def create_module(self, spec: ModuleSpec) -> None:
        """Nothing of its own."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of the old one."""
        new = f"plgc.{MOVED[module.__name__.removeprefix('plgc.')]}"
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)
