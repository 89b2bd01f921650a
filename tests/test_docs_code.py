"""Every code block of the README and of docs/ runs, or is at least understood; so do the examples in docstrings.

A page is read from top to bottom, as somebody who types along would: its Python blocks share their names, and all of
its blocks one folder. Python runs. Every ``plgc`` line is parsed by the real command line, and those on ``demo`` run.
What can do neither is in ``CANNOT_RUN``, with the reason. The usual run has a smaller graph in the place of the pages'
``demo``, and leaves out those in ``LONG``.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch_geometric.data import Data

import plgc
from plgc.artifact.condensed import CondensedGraph
from plgc.cli import UsageError, app, main
from plgc.graphs import citation_graph, list_graphs, save_npz
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import MissingExtraError
from plgc.sparse.inputs import fingerprint

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
SHELL, OUTPUT = ("", "bash", "sh", "console"), ("text", "json", "csv")
# Python that other tests run: one looks at what is printed too, one puts a small graph in the place of a real one
HAS_TEST = {"docs/your_graph.md": "test_your_graph.py", "README.md": "test_project_files.py"}
CANNOT_RUN = {
    "pip install": "would change the environment of the tests",
    "python -m http.server": "does not end",
    "ray start": "needs a cluster; tests/sources/engine/test_engine_ray.py starts one",
    "ray stop": "needs a cluster; tests/sources/engine/test_engine_ray.py stops one",
}
ONLY_PARSED = {
    "demo": "tests/demo/test_demo.py runs it",
    "data get": "needs a network",
    "experiment run": "takes minutes; tests/experiments runs small ones",
    "experiment table": "needs the records of a run",
}
WRITTEN = ("output", "out", "store", "checkpoint")  # paths that a command makes; all others it reads
LONG = ("docs/links.md", "docs/theory.md")
EXAMPLES = [path for path in sorted((ROOT / "src").rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def blocks(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def real_graphs(code: str) -> list[str]:
    """The graphs that a Python block loads by name and that are not made on the spot."""
    known = {entry.name for entry in list_graphs()} - {"demo"}
    return [name for name in re.findall(r'load_graph\(\s*"([^"]+)"', code) if name in known]


def remember(condense: Callable[..., CondensedGraph]) -> Callable[..., CondensedGraph]:
    """The same function, which does the same work once: many pages condense the same graph."""
    made: dict[tuple[Any, ...], CondensedGraph] = {}

    def condense_once(graph: Data | BareGraph, **options: Any) -> CondensedGraph:
        plain = {name: value for name, value in options.items() if name not in ("progress", "checkpoint")}
        bare = bare_graph(graph)
        core = None if bare.core_mask is None else bare.core_mask.numpy().tobytes()
        key = fingerprint(bare), core, repr(bare.seen), torch.get_num_threads(), repr(plain)
        if key not in made:
            made[key] = condense(bare, **options)
        return made[key]

    return condense_once


@pytest.fixture(scope="module", autouse=True)
def _condense_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shared = remember(plgc.condense)
        patch.setattr(plgc, "condense", shared)
        patch.setitem(METHODS, "plgc", replace(METHODS["plgc"], condenser=shared))
        yield


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of graphs, as PLGC_DATA names one, whose ``demo`` is a tenth of the embedded graph."""
    path = tmp_path_factory.mktemp("data") / "demo.npz"
    return save_npz(citation_graph(nodes=300, features=100), path).parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page, capsys)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in LONG])
def test_page_on_a_small_graph(
    page: str, folder: Path, small_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLGC_DATA", str(small_demo))
    run_page(page, capsys)


def run_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the blocks of a page one after the other, and compare what is printed with what the page shows."""
    names: dict[str, Any] = {}
    printed = ""
    for number, (language, code) in enumerate(blocks(page), 1):
        if language == "python" and page not in HAS_TEST:
            assert not real_graphs(code), f"{page}, block {number}: take a graph that is everywhere, such as demo"
            exec(compile(code, f"{page}, block {number}", "exec"), names)
        elif language in SHELL:
            capsys.readouterr()
            for words in commands(code):
                check(words, capsys)
            printed = capsys.readouterr().out
        elif language == "text" and printed:
            assert shape(code) in shape(printed), f"{page}, block {number}: this is not what is printed"
        else:
            assert language in ("python", *OUTPUT), f"{page}, block {number}: what is {language!r}?"


def shape(text: str) -> str:
    """What a text says apart from its numbers, which differ from machine to machine."""
    return " ".join(re.sub(r"\d[\d.,]*|-{2,}", "#", text).split())


def test_pages_with_a_test_of_their_own_have_one() -> None:
    for page, test in HAS_TEST.items():
        assert Path(page).name in (Path(__file__).parent / test).read_text(encoding="utf-8")


def commands(code: str) -> Iterator[list[str]]:
    """The commands of a shell block, as words: without comments and prompts, lines that go on joined."""
    for line in code.replace("\\\n", " ").splitlines():
        for command in line.removeprefix("$ ").split("&&"):
            words = shlex.split(command, comments=True)
            if words:
                yield words


def check(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fail unless a command can be given as it is written; run it where that is cheap."""
    line = shlex.join(words)
    if any(line.startswith(prefix) for prefix in CANNOT_RUN):
        return
    if words[0] == "make":
        target = f"^{words[1]}:"
        assert re.search(target, (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), f"no target: {line}"
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), f"no such file: {line}"
    else:
        assert words[0] in ("plgc", ".venv/bin/plgc"), f"neither run nor excused: {line}"
        name, parameters = parse(words[1:])
        if worth_running(name, parameters):
            assert main(words[1:]) == 0, f"{line}: {capsys.readouterr().err}"


def parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    """A command's name and values by the real command line; whatever it does not know is a failure."""
    command: Any = typer.main.get_command(app)
    path: list[str] = []
    try:
        while hasattr(command, "commands"):
            context = command.make_context(" ".join(path), list(words))
            name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
            path.append(name)
        return " ".join(path), command.make_context(path[-1], list(words)).params
    except UsageError as error:
        pytest.fail(f"plgc {shlex.join(words)}: {error.format_message()}")
    except typer.Exit:
        return words[0], {}  # --version and the like, which answer at once


def worth_running(name: str, parameters: dict[str, Any]) -> bool:
    """Whether a command is quick and everything it needs is here."""
    if name in ONLY_PARSED or parameters.get("engine") == "ray" or parameters.get("device", "cpu") != "cpu":
        return False
    read: list[Any] = []
    for key, value in parameters.items():
        if key not in WRITTEN:
            read += value if isinstance(value, list | tuple) else [value]
    graphs = parameters.get("graphs") or [parameters.get("graph")]
    graphs = [str(graph) for graph in graphs if graph is not None]
    missing = [str(path) for path in read if isinstance(path, Path) and not path.exists()]
    if not all(graph == "demo" or Path(graph).is_file() for graph in graphs):
        return False
    assert not missing or not graphs, f"plgc {name}: no earlier block of the page makes {', '.join(missing)}"
    return not missing


class Finder(doctest.DocTestFinder):
    """Finds examples of decorated functions too."""

    def _from_module(self, module: Any, object: Any) -> bool:
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)  # pyright: ignore


@pytest.mark.parametrize("path", EXAMPLES, ids=[str(path.relative_to(ROOT / "src")) for path in EXAMPLES])
def test_docstring_examples(path: Path, folder: Path) -> None:
    assert "+SKIP" not in path.read_text(encoding="utf-8"), "an example that is not run may be wrong"
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in Finder(exclude_empty=True).find(module):
        runner.run(test, out=said.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(said)
