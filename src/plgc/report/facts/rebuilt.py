"""Backbones rebuilt from files and their embeddings of the graph, each made once for all parts of a report."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import Backbone, BackboneSettings, reconstruct
from plgc.report.inputs import ReportGraph, ReportOptions
from plgc.runtime.errors import SettingError


class Rebuilt:
    """What is rebuilt with the report's own seed, by the files it is rebuilt from; without X, ÂX and Â²X beside it."""

    def __init__(self, graph: ReportGraph | None, options: ReportOptions) -> None:
        self.graph, self.options = graph, options
        self._backbones: dict[tuple[CondensedGraph, ...], Backbone] = {}
        self._nodes: dict[tuple[CondensedGraph, ...], Tensor] = {}

    def backbone(self, condensed: Sequence[CondensedGraph]) -> Backbone:
        """The backbone of these files, with one head for each."""
        files, settings = tuple(condensed), BackboneSettings(skip=False)
        if files not in self._backbones:
            combine = "heads" if len(files) > 1 else None
            seed, device = self.options.seed, self.options.device
            self._backbones[files] = reconstruct(files, seed=seed, device=device, settings=settings, combine=combine)
        return self._backbones[files]

    def nodes(self, condensed: Sequence[CondensedGraph]) -> Tensor:
        """What it gives for every node of the graph, [N, d], on the CPU."""
        if self.graph is None:
            raise SettingError("there is no graph to embed: give one")
        files = tuple(condensed)
        if files not in self._nodes:
            self._nodes[files] = self.backbone(files).embed(self.graph.data).cpu()
        return self._nodes[files]
