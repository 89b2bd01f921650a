"""The order of the packages, and the picture of them in CONTRIBUTING.md.

``python tests/layout.py`` prints the picture, ``python tests/layout.py --write`` puts it into CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "plgc"

# A package may import from those before it, and never from those after it. This is the only list of them.
PACKAGES = (
    *("runtime", "graphs", "sparse", "artifact", "method", "downstream", "rivals", "evaluation", "sources"),
    *("experiments", "report", "demo", "cli"),
)
START, END = "<!-- layout: made by tests/layout.py -->\n```\n", "```\n<!-- end of layout -->"
WIDTH, COLUMN = 110, 17
MODULE = re.compile(r"plgc(\.[a-z]\w*)+")


def module_name(path: Path) -> str:
    """``plgc.graphs.load`` for its file; of a package, the package's own name."""
    return ".".join(("plgc", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def package_of(module: str) -> str:
    """The first folder of a module's name; "" of the modules directly in ``plgc``."""
    first = module.split(".")[1] if "." in module else ""
    return first if first in PACKAGES or (SOURCE / first).is_dir() else ""


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of everything of ``plgc`` that a file imports, anywhere in it.

    Imports inside functions count, those for type checkers too, and so do names of modules written as text: that is
    how tables name modules that are imported on use.
    """
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            yield node.lineno, node.value
        yield from ((node.lineno, name) for name in _imported(node))


def _imported(node: ast.AST) -> list[str]:
    """The names that an import statement imports, in full; of every other node, none."""
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"line {node.lineno}: write imports in full, from plgc... import ..."
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def known_module(name: str, found: dict[str, Path]) -> str | None:
    """The module that an imported name is, or is in; None for other libraries and for text that names no module."""
    while name and name not in found:
        name = name.rpartition(".")[0]
    return name or None


def in_order(package: str, found: dict[str, Path]) -> list[str]:
    """The modules of a package, each after those that it cannot be loaded without."""
    inside = [name for name in found if name.startswith(f"plgc.{package}.")]
    graph: dict[str, set[str]] = {}
    for name in inside:
        used = {known_module(imported, found) for node in _parsed(found[name]).body for imported in _imported(node)}
        graph[name] = {other for other in used if other in inside and other != name}
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    result: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        result += ready
        sorter.done(*ready)
    return result


def summary(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(_parsed(path)) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].removesuffix(".")


def picture() -> str:
    """The layout: every package in its order, what it is for, and its modules, each after those it imports."""
    found = modules()
    lines = ["src/plgc/"]
    for package in PACKAGES:
        lines += _wrapped(f"  {package}/", summary(SOURCE / package / "__init__.py"))
        groups: dict[str, list[str]] = {"": []}
        for name in in_order(package, found):
            folder, _, last = name.removeprefix(f"plgc.{package}.").rpartition(".")
            if found[name].name == "__init__.py":
                groups.setdefault(last if not folder else f"{folder}.{last}", [])
            else:
                groups.setdefault(folder, []).append(last)
        for folder, names in groups.items():
            if names:
                lines += _wrapped(f"    {folder.replace('.', '/')}/" if folder else "", " ".join(names))
    return "\n".join(lines) + "\n"


def _wrapped(first: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH - COLUMN, break_on_hyphens=False) or [""]
    return [f"{first:<{COLUMN}}{lines[0]}".rstrip(), *(" " * COLUMN + line for line in lines[1:])]


def main() -> int:
    """Print the picture, or write it into CONTRIBUTING.md."""
    if "--write" not in sys.argv[1:]:
        print(picture(), end="")
        return 0
    path = ROOT / "CONTRIBUTING.md"
    before, rest = path.read_text(encoding="utf-8").split(START)
    path.write_text(before + START + picture() + END + rest.split(END)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
