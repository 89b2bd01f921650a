"""How the command line behaves: examples that work, how loud it is, colours, completion, and a quick ``--help``."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import plgc
from plgc.cli import app, main, output

SOURCE = str(Path(plgc.__file__).parents[1])


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        for inner, leaf in getattr(command, "commands", {"": command}).items():
            yield f"{name} {inner}".strip(), leaf


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_help_ends_with_examples_that_can_be_given(name: str) -> None:
    command = dict(commands())[name]
    heading, *lines = command.epilog.removeprefix("\b\n").splitlines()
    assert heading == "Examples:"
    assert 2 <= len(lines) <= 4
    for line in lines:
        words = [word for word in shlex.split(line) if "=" not in word or word.startswith("-")]
        assert words[: 1 + len(name.split())] == ["plgc", *name.split()], line
        command.make_context(name, words[1 + len(name.split()) :])  # fails where it cannot be given
    help_text = command.get_help(command.context_class(command, info_name=name))
    assert help_text.rstrip().endswith(lines[-1].strip())


def test_every_command_can_be_quiet_and_verbose() -> None:
    for name, command in commands():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {"--verbose", "-v", "--quiet", "-q"} <= flags, name


def test_commands_that_name_a_graph_read_it_alike() -> None:
    reading = {"--nodes-table", "--column", "--scale", "--decimal", "--features", "--features-seed"}
    for name, command in commands():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        names_one = "--graph" in flags or name == "condense"
        table = {"--column", "--scale", "--decimal"}
        allowed = {"data describe": table, "data store": {*table, "--nodes-table"}}.get(name, set())
        assert (reading <= flags) if names_one else reading & flags == allowed, name


def test_how_loud(run: Any, artifact: Path, graph: Path, tmp_path: Path) -> None:
    command = ["train", artifact, "--graph", graph, "--features", "fastrp:100", "-o", tmp_path / "m.safetensors"]
    usual = run(*command)
    assert usual.err.startswith("note: small: features are derived from the edges")
    assert usual.err.count("\n") == 2
    loud = run(*command[:4], *command[6:], "-v")
    assert loud.code == 0
    assert "small: 300 nodes" in loud.err
    assert f"plgc {plgc.__version__}, torch " in loud.err
    quiet = run(*command, "-q")
    assert (quiet.code, quiet.err.count("\n")) == (1, 1)
    assert quiet.err.startswith("error: ")
    before = run("-q", *command)
    assert before.err == quiet.err
    both = run(*command, "-q", "-v")
    assert (both.code, "not both" in both.err) == (2, True)
    assert run(*command).err == usual.err  # the next command is as loud as usual


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, variables, coloured in (
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ):
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            patch.setenv("TERM", "xterm")
            for name, value in variables.items():
                patch.setenv(name, value)
            with contextlib.redirect_stderr(stream):
                assert main(["inspect", "no-such-file"]) == 1
        assert ("\x1b[" in stream.getvalue()) == coloured
        assert "there is no file no-such-file" in stream.getvalue()


def test_progress_is_for_terminals_and_not_for_the_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.runtime.progress.DELAY", 0.0)
    for quiet in (False, True):
        stream = Terminal()
        with contextlib.redirect_stderr(stream):
            output.start_messages()
            if quiet:
                output.LOG.setLevel(output.ERRORS)
            with output.working() as progress:
                progress("at work", 1, 2)
        assert ("at work" in stream.getvalue()) == (not quiet)


ALONE = f"""
import sys, types
sys.modules["plgc"] = types.ModuleType("plgc")
sys.modules["plgc"].__path__ = [{SOURCE + "/plgc"!r}]
from plgc.cli import main
"""


def as_process(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code with the command line alone: what the package's ``__init__`` imports is left out by a stand-in."""
    return subprocess.run(
        [sys.executable, "-c", ALONE + code], env=os.environ | variables, capture_output=True, text=True
    )


def test_shells_are_taught_to_complete() -> None:
    words = {"COMP_WORDS": "plgc condense --feat", "COMP_CWORD": "2"}
    done = as_process("sys.exit(main([]))", _PLGC_COMPLETE="complete_bash", **words)
    assert done.stdout.split() == ["--features", "--features-seed"]
    assert done.stderr == ""


def test_help_needs_no_torch() -> None:
    code = """
for arguments in (["--help"], ["--version"], ["condense", "--help"], ["experiment", "run", "--help"]):
    assert main(arguments) == 0
print([name for name in ("torch", "numpy", "scipy") if name in sys.modules])
"""
    done = as_process(code)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
