"""``plgc experiment``: list the paper's tables and figures, run one, show its results."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import check_not_input
from plgc.cli.options import Device, Json, check_device, chosen, examples, takes
from plgc.cli.output import show, table, working
from plgc.runtime.text import visible_lines

if TYPE_CHECKING:
    from plgc.experiments.grid import Choice
    from plgc.experiments.spec import Experiment

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The paper's tables and figures: list them, run one, show it."
)
RUNS = Path("runs")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from 'plgc experiment list'.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the records; by default runs/NAME.", file_okay=False)
]
Form = StrEnum("Form", ["text", "markdown", "csv"])


class ChoiceOptions:
    """A part of an experiment: :class:`plgc.experiments.grid.Choice`."""

    datasets: Annotated[str | None, typer.Option(metavar="A,B", help="Only these graphs.")] = None
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="These methods, not those the experiment names.")
    ] = None
    presets: Annotated[str | None, typer.Option(metavar="A,B", help="Our presets: default, paper.")] = None
    nodes: Annotated[str | None, typer.Option(metavar="K,K", help="Only these sizes.")] = None
    noise: Annotated[str | None, typer.Option(metavar="R,R", help="These shares of wrong labels.")] = None
    shots: Annotated[
        str | None, typer.Option(metavar="S,S", help="These numbers of labels per class; all for all of them.")
    ] = None
    year: Annotated[str | None, typer.Option("--years", metavar="Y,Y", help="These years of a graph that grows.")] = (
        None
    )
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Seeds 0 to N - 1.")] = None
    draws: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Label draws of a seed, where the experiment has several.")
    ] = None


def _shots(word: str) -> int | None:
    """Labels per class; None for all of them."""
    return None if word == "all" else int(word)


NUMBERS: dict[str, Callable[[str], Any]] = {"nodes": int, "noise": float, "shots": _shots, "year": int}


@app.command("list", epilog=examples("plgc experiment list", "plgc experiment list --json"))
@takes()
def list_all(json: Json = False, **_given: Any) -> None:
    """List the experiments that ship with the package."""
    from plgc.experiments.grid import cells
    from plgc.experiments.spec import list_experiments

    entries = [
        {
            "name": found.name,
            "title": found.title,
            "task": found.task,
            "graphs": [graph.name for graph in found.graphs],
            "methods": list(found.methods),
            "cells": sum(1 for _ in cells(found)),
            "pending": found.pending,
        }
        for found in list_experiments()
    ]
    rows = [["name", "what", "cells"]]
    for entry in entries:
        rows.append([entry["name"], entry["title"] + (" [not yet]" if entry["pending"] else ""), str(entry["cells"])])
    show({"experiments": entries}, table(rows, names=2), json)


@app.command(
    "run",
    epilog=examples(
        "plgc experiment run table3 --datasets cora --seeds 3",
        "plgc experiment run table3 --methods plgc,whole --out runs/mine --jobs 2",
    ),
)
@takes(ChoiceOptions)
def run(
    name: Name,
    out: Out = None,
    store: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of condensed graphs, shared by experiments.", file_okay=False)
    ] = RUNS / "artifacts",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes side by side; by default one a core, at most 4.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="CPU threads of each process.")] = 1,
    device: Device = "cpu",
    json: Json = False,
    **given: Any,
) -> None:
    """Run an experiment, or a part of it.

    Finished cells are kept and not repeated: stop it at any time, and give the same command again to resume. Graphs
    that can be neither found nor downloaded are left out, with a notice.
    """
    check_device(device)
    from plgc.experiments.grid import narrow
    from plgc.experiments.records import records_file
    from plgc.experiments.run import RunOptions, run_experiment
    from plgc.experiments.spec import load_experiment
    from plgc.graphs.load import graph_files

    experiment = narrow(load_experiment(name), _choice(given))
    records = records_file(out or RUNS / name, name)
    check_not_input([records], [path for graph in experiment.graphs for path in graph_files(graph.name)])
    options = RunOptions(records, store, device, threads)
    jobs = jobs or (min(4, os.cpu_count() or 1) if device == "cpu" else 1)
    with working() as progress:
        done = run_experiment(experiment, options, jobs=jobs, progress=progress)
    lines = [
        f"{name}: {done.cells} cells, {done.already} done before, {done.run} run now, {done.failed} failed",
        f"records: {records}",
        *(f"left out: {reason}" for reason in done.unavailable.values()),
        f"see them with: plgc experiment table {name}" + (f" --out {out}" if out else ""),
    ]
    show({"experiment": name, "records": str(records), **asdict(done)}, "\n".join(lines), json)


@app.command(
    "table",
    epilog=examples("plgc experiment table table3", "plgc experiment table table3 --datasets cora --format markdown"),
)
@takes(ChoiceOptions)
def show_table(
    name: Name,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Another metric than the usual one.")] = None,
    form: Annotated[Form, typer.Option("--format", help="For the terminal, for a document, for a program.")] = (
        Form.text
    ),
    out: Out = None,
    **given: Any,
) -> None:
    """Show the results of an experiment so far, beside the paper's own numbers and the controls."""
    from plgc.experiments.grid import narrow
    from plgc.experiments.records import read_records, records_file
    from plgc.experiments.spec import load_experiment
    from plgc.experiments.tables import make_table, to_csv, to_markdown, to_text

    choice = _choice(given)
    experiment = narrow(load_experiment(name), choice)
    path = records_file(out or RUNS / name, name, must_exist=True)
    records = [record for record in read_records([path]) if choice.takes(record["cell"])]
    made = make_table(experiment, records, metric, unavailable=_unavailable(experiment, records))
    write = {Form.text: to_text, Form.markdown: to_markdown, Form.csv: to_csv}[form]
    typer.echo(visible_lines(write(made)).rstrip("\n"))


def _unavailable(experiment: Experiment, records: list[dict[str, Any]]) -> tuple[str, ...]:
    """Graphs without a record that are not here: only a run can tell whether they can be downloaded."""
    from plgc.graphs.catalog import list_graphs, normalised

    here = {normalised(entry.name) for entry in list_graphs() if entry.where != "download"}
    seen = {record["cell"]["graph"] for record in records}
    names = [graph.name for graph in experiment.graphs]
    return tuple(graph for graph in names if graph not in seen and normalised(graph) not in here)


def _choice(given: dict[str, Any]) -> Choice:
    """The part of an experiment that the options ask for."""
    from plgc.experiments.grid import Choice

    options = chosen(ChoiceOptions, given)
    for name, text in options.items():
        if name in ("seeds", "draws"):
            continue
        try:
            words = (word.strip() for word in text.split(",") if word.strip())
            options[name] = tuple(NUMBERS.get(name, str)(word) for word in words)
        except ValueError as error:
            raise typer.BadParameter(f"--{name} is {text!r}: give numbers with commas between them") from error
    return Choice(**options)
