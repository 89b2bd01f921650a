"""The condensed graph: one small safetensors file, and its form in other libraries.

It may know where graphs come from, not how they are condensed: :mod:`plgc.method` fills it, and so does every rival.
"""

from plgc.artifact.condensed import CondensedGraph

__all__ = ["CondensedGraph"]
