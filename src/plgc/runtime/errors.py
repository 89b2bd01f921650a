"""The errors a user can cause, each with a short machine-readable ``kind``.

Every message says what is wrong, the value seen, and what to do about it. The CLI prints the message alone
(``plgc.cli``), Python users catch :class:`PLGCError` or the more specific class.
"""

from __future__ import annotations


class PLGCError(Exception):
    """Base class of everything the package raises on purpose."""

    kind = "error"


class GraphError(PLGCError, ValueError):
    """A graph that cannot be used: bad edges, features, labels or masks."""

    kind = "bad-graph"


class GraphNotFoundError(PLGCError, LookupError):
    """A graph name or path that leads to nothing."""

    kind = "graph-not-found"


class SettingError(PLGCError, ValueError):
    """A setting outside its range, or two settings that contradict each other."""

    kind = "bad-setting"


class ArtifactError(PLGCError, ValueError):
    """A condensed-graph or model file that cannot be opened as one."""

    kind = "bad-artifact"


class LabelError(PLGCError, ValueError):
    """A task that needs labels, a graph that does not have them (or not enough of them)."""

    kind = "missing-labels"


class MissingExtraError(PLGCError, ImportError):
    """An optional dependency that is not installed."""

    kind = "missing-extra"
