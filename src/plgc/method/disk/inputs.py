"""Which graphs are condensed from disk."""

from __future__ import annotations

import torch

from plgc.graphs.bare import BareGraph
from plgc.method.disk.budget import fits_in_memory
from plgc.method.disk.layers import WORKING
from plgc.method.settings import CondenseSettings
from plgc.runtime.mapped import is_mapped
from plgc.runtime.options import Compute


def why_in_memory(
    graph: BareGraph, count: int, settings: CondenseSettings, compute: Compute, stands_in: bool
) -> str | None:
    """Why a graph that could stay on disk is taken into memory, for messages; "" for one that belongs there.

    None: it is condensed from disk. With a memory limit, on a CPU, these are all graphs whose edges are mapped, and
    those that are in memory but leave no room there for what is made of them; unless what is asked for needs the
    weights of all nodes at once.
    """
    budget = compute.budget
    if budget is None or torch.device(compute.device).type != "cpu":
        return ""
    if not is_mapped(graph.edge_index) and fits_in_memory(graph, count, settings, budget):
        return ""
    kinds = sorted({branch.kind for branch in settings.branches} - set(WORKING))
    reasons = {
        "private (--private)": settings.private,
        "max_share (--max-share)": settings.max_share < 1,
        "only_new (--only-new)": stands_in,
        f"an encoder of kind {', '.join(kinds)}": bool(kinds),
        "sparse features": graph.x.layout != torch.strided,
    }
    return ", ".join(name for name, found in reasons.items() if found) or None
