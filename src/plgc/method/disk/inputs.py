"""Which graphs are condensed from disk."""

from __future__ import annotations

import torch

from plgc.graphs.bare import BareGraph
from plgc.method.disk.layers import WORKING
from plgc.method.settings import CondenseSettings
from plgc.runtime.mapped import is_mapped
from plgc.runtime.options import Compute


def why_in_memory(graph: BareGraph, settings: CondenseSettings, compute: Compute, stands_in: bool) -> str | None:
    """Why a graph with mapped edges takes them into memory, for messages; "" where its edges are not mapped.

    None: it is condensed from disk. That is so for every graph with mapped edges and a memory limit, on a CPU, unless
    what is asked for needs the weights of all nodes at once.
    """
    if not is_mapped(graph.edge_index) or compute.budget is None or torch.device(compute.device).type != "cpu":
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
