"""Generated parts of the site: the reference of the command line, two figures from the records, and a picture."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from plgc.cli import app
from plgc.experiments.canvas import save_svg
from plgc.experiments.curves import draw_curves
from plgc.experiments.grid import Choice, narrow
from plgc.experiments.records import read_records, records_file
from plgc.experiments.spec import load_experiment

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads a hook as a file of its own
from living import picture

RESULTS = Path(__file__).parents[2] / "results"
GRAPHS = ("cora", "citeseer")
# each figure's experiment, and the methods it shows; the controls are in both
FIGURES = {
    "few_labels": ("fig3", ("plgc", "whole")),
    "noisy_labels": ("fig4", ("plgc", "whole", "gcond", "gecc")),
}
EXAMPLES = re.compile(r"\x08?\n?Examples:\n((?: +plgc.*\n)+)")  # as printed at the end of a command's --help
INTRODUCTION = """# Command line

The `--help` text of every command. With `--json` exactly one JSON object is printed on stdout; progress goes to stderr.
Exit codes: 0 success, 1 the command failed, 2 wrong usage, 130 interrupted.

"""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated page and figures to the files of the site."""
    files.append(File.generated(config, "commands.md", content=command_page()))
    for name, (experiment, methods) in FIGURES.items():
        files.append(File.generated(config, f"figures/{name}.svg", content=figure(experiment, methods)))
    files.append(File.generated(config, "figures/living.svg", content=picture()))
    return files


def command_page() -> str:
    """The help of all commands as Markdown, made by typer."""
    command = typer.main.get_command(app)
    _, _, commands = get_docs_for_click(obj=command, ctx=typer.Context(command), name="plgc").partition("\n## ")
    return INTRODUCTION + EXAMPLES.sub(_fenced, "## " + commands)


def _fenced(examples: re.Match[str]) -> str:
    lines = [f"$ {line.strip()}" for line in examples[1].splitlines()]
    return "\n".join(["**Examples**:", "", "```console", *lines, "```", ""])


def figure(name: str, methods: tuple[str, ...]) -> bytes:
    """Curves of some methods on two graphs, from the published records."""
    choice = Choice(datasets=GRAPHS, methods=methods, presets=("default",))
    experiment = narrow(load_experiment(name), choice)
    records = read_records([records_file(RESULTS / name, name, must_exist=True)])
    drawn = draw_curves(experiment, [record for record in records if choice.takes(record["cell"])])
    with tempfile.TemporaryDirectory() as folder:
        return save_svg(drawn, Path(folder) / "figure.svg").read_bytes()
