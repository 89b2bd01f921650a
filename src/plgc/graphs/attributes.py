"""Optional attributes of a PyG ``Data``."""

from __future__ import annotations

from typing import Any

from torch_geometric.data import Data


def attribute(graph: Data, name: str, default: Any = None) -> Any:
    """An attribute of a graph; ``default`` where it is missing or None."""
    return graph[name] if name in graph else default  # noqa: SIM401 (Data has no get)
