"""What the project says about itself: pins, documented commands and layout agree with the code."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import plgc
from plgc.cli import main
from plgc.graphs import citation_graph, save_npz

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def readme_blocks(language: str) -> list[str]:
    """The README's code blocks in one language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", read("README.md"), re.MULTILINE | re.DOTALL)
    return [code for name, code in blocks if name == language]


def readme_commands() -> list[str]:
    """Every ``plgc …`` line of the README's code blocks, without comments."""
    lines = [line.split("#")[0].strip() for block in readme_blocks("") for line in block.splitlines()]
    return [line for line in lines if line.startswith("plgc ")]


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert pins["torch"] == "2.13.0"
    for requirement in map(Requirement, wanted):
        if requirement.name != "plgc":
            assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_readme_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = readme_commands()
    assert len(commands) >= 8
    for command in commands:
        words = command.split()[1:]
        name = [word for word in words[: 2 if words[0] in ("data", "experiment") else 1] if not word.startswith("-")]
        assert main([*name, "--help"]) == 0, command
        text = capsys.readouterr().out
        for option in re.findall(r"(?<!\S)--?[a-z]+", command):
            assert re.search(rf"(?<!\S){option}\b", text), f"{option} in: {command}"


def test_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = readme_blocks("python")
    save_npz(citation_graph(nodes=200, classes=3, features=80), tmp_path / "cora.npz")
    monkeypatch.setenv("PLGC_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert isinstance(names["condensed"], plgc.CondensedGraph)
    assert names["condensed"].nodes_requested == round(0.026 * 200)


def test_changelog_has_this_version() -> None:
    assert f"## [{plgc.__version__}]" in read("CHANGELOG.md")


def test_ci_runs_the_documented_test_command() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert {"make test", "make test-slow"} <= set(read(".ci/run").splitlines())
    assert "make test" in read("README.md")
    assert "make demo" in read("README.md")
