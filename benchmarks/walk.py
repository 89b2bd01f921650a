"""What one command passes through: modules, frames, and work that is done more than once.

    python benchmarks/walk.py [--graph cora] [--nodes 70] [--json]

Runs ``plgc condense`` and ``plgc evaluate`` in this process, watches every call of a function of ours, and counts
lines and modules in the source. The graph is Cora where ``PLGC_DATA`` has it, else the embedded one. Works on any
version: ``PYTHONPATH=OTHER/src python benchmarks/walk.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import plgc
from plgc.cli import main as command_line

PACKAGE = Path(plgc.__file__).parent
EPOCH, FORM, CHECK, ADJACENCY = "train_epoch", "standard_form", "check_structure", "build_adjacency"
SEEDS = 2


@dataclass
class Walk:
    """What was called while a command ran."""

    modules: set[str] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    above: Counter[int] = field(default_factory=Counter)
    way: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    known: dict[CodeType, str | None] = field(default_factory=dict)

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, where it is one of ours."""
        if event != "call":
            return
        code = frame.f_code
        if code not in self.known:
            self.known[code] = _module(code)
        module = self.known[code]
        if module is None:
            return
        self.modules.add(module)
        if code.co_name in (EPOCH, FORM, CHECK, ADJACENCY):
            self.calls[code.co_name] += 1
        if code.co_name == EPOCH:
            way = self._frames(frame.f_back)
            self.above[len(way)] += 1
            self.way = max(self.way, way, key=len)
        elif code.co_name == ADJACENCY:
            self.sizes.append(int(frame.f_locals["num_nodes"]))

    def _frames(self, frame: FrameType | None) -> list[str]:
        """Our functions that a frame is called from, the outermost first; comprehensions and wrappers are functions."""
        way = []
        while frame is not None:
            module = self.known.get(frame.f_code)
            if module is not None:
                way.append(f"{module}.{frame.f_code.co_name}")
            frame = frame.f_back
        return way[::-1]


def _module(code: CodeType) -> str | None:
    """The module of ours that code is a function of; None for other code, and for what runs while a module loads."""
    path = Path(code.co_filename)
    if code.co_name == "<module>" or PACKAGE not in path.parents:
        return None
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def walk(*words: object) -> Walk:
    """Run a command and watch it."""
    arguments, found, out = [str(word) for word in words], Walk(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        sys.setprofile(found.watch)
        try:
            code = command_line(arguments)
        finally:
            sys.setprofile(None)
    if code:
        raise SystemExit(f"plgc {' '.join(arguments)} ended with {code}: {out.getvalue()}")
    return found


def measure(graph: str, nodes: int) -> dict[str, Any]:
    """Every number of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "condensed.safetensors")
        walk("condense", graph, "--nodes", nodes, "-o", file)  # now everything is imported, which calls functions too
        condensing = walk("condense", graph, "--nodes", nodes, "-o", file)
        seeds = {count: walk("evaluate", file, "--graph", graph, "--seeds", count) for count in (1, SEEDS)}
    built = {count: sum(size > nodes for size in found.sizes) for count, found in seeds.items()}
    source = sorted(PACKAGE.rglob("*.py"))
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in source}
    return {
        "graph": graph,
        "modules_called": len(condensing.modules),
        "frames_above_an_epoch": max(condensing.above),
        "epochs": condensing.calls[EPOCH],
        "brought_to_one_form": condensing.calls[FORM],
        "structure_checked": condensing.calls[CHECK],
        "adjacencies_of_one_seed": built[1],
        "adjacencies_of_every_further_seed": (built[SEEDS] - built[1]) / (SEEDS - 1),
        "brought_to_one_form_in_evaluate": seeds[1].calls[FORM],
        "modules_beside_packages": len(list(PACKAGE.glob("*.py"))),
        "modules": len(source),
        "files_over_300_lines": sum(count > 300 for count in lines.values()),
        "lines": sum(lines.values()),
        "steps_to_add_a_method": steps_to_add_a_method(),
        "way": condensing.way,
        "called": sorted(condensing.modules),
    }


def steps_to_add_a_method() -> int:
    """The numbered steps of the guide that comes with this version."""
    guide = PACKAGE.parents[1] / "docs" / "add_a_method.md"
    return (
        len(re.findall(r"^(?:## )?\d+\. ", guide.read_text(encoding="utf-8"), re.MULTILINE)) if guide.is_file() else 0
    )


def table(found: dict[str, Any]) -> str:
    """The numbers as text."""
    rows = [
        ("modules directly in src/plgc beside packages", found["modules_beside_packages"]),
        (f"modules called by plgc condense {found['graph']}", found["modules_called"]),
        (f"frames of ours above {EPOCH}", found["frames_above_an_epoch"]),
        (f"times the graph is brought to one form ({FORM})", found["brought_to_one_form"]),
        (f"times its structure is checked ({CHECK})", found["structure_checked"]),
        ("times Â is built in evaluate, one seed", found["adjacencies_of_one_seed"]),
        ("times Â is built in evaluate, every further seed", found["adjacencies_of_every_further_seed"]),
        ("steps to add a method, by docs/add_a_method.md", found["steps_to_add_a_method"]),
        ("lines in src/plgc", found["lines"]),
        ("modules in src/plgc", found["modules"]),
        ("of them over 300 lines", found["files_over_300_lines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value:>7g}" for name, value in rows]
    return "\n".join([*lines, "", "called:", *_wrapped(found["called"]), "", "way to an epoch:", *found["way"]])


def _wrapped(names: list[str], width: int = 110) -> list[str]:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > width:
            lines.append("")
        lines[-1] += f"{name} "
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    has_cora = Path(os.environ.get("PLGC_DATA", "/nowhere"), "cora.npz").is_file()
    parser.add_argument("--graph", default="cora" if has_cora else "demo")
    parser.add_argument("--nodes", type=int, default=70)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    given = parser.parse_args()
    found = measure(given.graph, given.nodes)
    print(json.dumps(found) if given.json else table(found))


if __name__ == "__main__":
    main()
