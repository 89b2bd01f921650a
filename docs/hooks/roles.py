"""Rewrites docstrings for the site.

Roles such as ``:func:`plgc.condense``` become links if their target is on the site. The heading ``Example:`` becomes
``Examples:``, the only form that griffe shows as code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`(~?)([\w.]+)`")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Roles(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn roles into optional cross-references: a name that is not on the site stays plain code."""
        if obj.docstring is not None:
            linked = ROLE.sub(lambda role: _link(role, obj), obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub("Examples:", linked)


def _link(role: re.Match[str], obj: griffe.Object) -> str:
    short, name = role.groups()
    path = name if name.startswith("plgc") else _absolute(name, obj)
    shown = name.rsplit(".", 1)[-1] if short else name
    return f'<autoref optional identifier="{path}"><code>{shown}</code></autoref>'


def _absolute(name: str, obj: griffe.Object) -> str:
    """The full path of a name that is relative to the module or class it is used in."""
    scope: griffe.Object | None = obj
    while scope is not None:
        if name.split(".")[0] in scope.members:
            return f"{scope.path}.{name}"
        scope = scope.parent  # pyright: ignore[reportAssignmentType]
    return name
