"""``plgc experiment``: list the paper's tables and figures, run one, show what came out."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import check_not_input
from plgc.cli.messages import Quiet, Verbose, working
from plgc.cli.options import Device, Json, check_device, examples
from plgc.cli.output import show, table

if TYPE_CHECKING:
    from plgc.experiments.grid import Choice
    from plgc.experiments.spec import Experiment

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The paper's tables and figures: list them, run one, show it."
)
RUNS = Path("runs")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from 'plgc experiment list'.")]
Datasets = Annotated[str | None, typer.Option(metavar="A,B", help="Only these graphs.")]
Methods = Annotated[str | None, typer.Option(metavar="A,B", help="These methods, not those the experiment names.")]
Presets = Annotated[str | None, typer.Option(metavar="A,B", help="Our presets: default, paper.")]
Nodes = Annotated[str | None, typer.Option(metavar="K,K", help="Only these sizes.")]
Noise = Annotated[str | None, typer.Option(metavar="R,R", help="These shares of wrong labels.")]
ShotList = Annotated[str | None, typer.Option(metavar="S,S", help="These numbers of labels per class.")]
Seeds = Annotated[int | None, typer.Option(min=1, metavar="N", help="Seeds 0 to N - 1.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the records; by default runs/NAME.", file_okay=False)
]


class Form(StrEnum):
    """How a table is written."""

    text = "text"
    markdown = "markdown"
    csv = "csv"


@app.command("list", epilog=examples("plgc experiment list", "plgc experiment list --json"))
def list_all(json: Json = False, _verbose: Verbose = False, _quiet: Quiet = False) -> None:
    """List the experiments that ship with the package."""
    from plgc.experiments.grid import cells
    from plgc.experiments.spec import list_experiments

    experiments = list_experiments()
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
        for found in experiments
    ]
    rows = [["name", "what", "cells"]]
    rows += [
        [entry["name"], entry["title"] + (" [not yet]" if entry["pending"] else ""), str(entry["cells"])]
        for entry in entries
    ]
    show({"experiments": entries}, table(rows, names=2), json)


@app.command(
    "run",
    epilog=examples(
        "plgc experiment run table3 --datasets cora --seeds 3",
        "plgc experiment run table3 --methods plgc,whole --out runs/mine --jobs 2",
    ),
)
def run(
    name: Name,
    datasets: Datasets = None,
    methods: Methods = None,
    presets: Presets = None,
    nodes: Nodes = None,
    noise: Noise = None,
    shots: ShotList = None,
    seeds: Seeds = None,
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
    _verbose: Verbose = False,
    _quiet: Quiet = False,
) -> None:
    """Run an experiment, or a part of it.

    Finished cells are kept and not repeated: stop it at any time, and give the same command again to go on. Graphs that
    cannot be had here are left out, and said to be.
    """
    check_device(device)
    from plgc.experiments.grid import narrow
    from plgc.experiments.records import records_file
    from plgc.experiments.run import RunOptions, run_experiment
    from plgc.experiments.spec import load_experiment
    from plgc.graphs.load import graph_files

    experiment = narrow(load_experiment(name), _choice(datasets, methods, presets, nodes, noise, shots, seeds))
    records = records_file(out or RUNS / name, name)
    check_not_input([records], [path for graph in experiment.graphs for path in graph_files(graph.name)])
    options = RunOptions(records, store, device, threads)
    jobs = jobs or (min(4, os.cpu_count() or 1) if device == "cpu" else 1)
    with working() as progress:
        outcome = run_experiment(experiment, options, jobs=jobs, progress=progress)
    result: dict[str, Any] = {
        "experiment": name,
        "records": str(records),
        "cells": outcome.cells,
        "already": outcome.already,
        "run": outcome.run,
        "failed": outcome.failed,
        "unavailable": outcome.unavailable,
    }
    lines = [
        f"{name}: {outcome.cells} cells, {outcome.already} done before, {outcome.run} run now, {outcome.failed} failed",
        f"records: {records}",
    ]
    lines += [f"left out: {reason}" for reason in outcome.unavailable.values()]
    lines.append(f"see them with: plgc experiment table {name}" + (f" --out {out}" if out else ""))
    show(result, "\n".join(lines), json)


@app.command(
    "table",
    epilog=examples("plgc experiment table table3", "plgc experiment table table3 --datasets cora --format markdown"),
)
def show_table(
    name: Name,
    datasets: Datasets = None,
    methods: Methods = None,
    presets: Presets = None,
    nodes: Nodes = None,
    noise: Noise = None,
    shots: ShotList = None,
    seeds: Seeds = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Another metric than the usual one.")] = None,
    form: Annotated[Form, typer.Option("--format", help="For the terminal, for a document, for a program.")] = (
        Form.text
    ),
    out: Out = None,
    _verbose: Verbose = False,
    _quiet: Quiet = False,
) -> None:
    """Show what an experiment has found so far, beside the paper's own numbers and the controls."""
    from plgc.experiments.grid import narrow
    from plgc.experiments.records import read_records, records_file
    from plgc.experiments.spec import load_experiment
    from plgc.experiments.tables import make_table, to_csv, to_markdown, to_text

    choice = _choice(datasets, methods, presets, nodes, noise, shots, seeds)
    experiment = narrow(load_experiment(name), choice)
    path = records_file(out or RUNS / name, name, must_exist=True)
    records = [record for record in read_records([path]) if choice.takes(record["cell"])]
    made = make_table(experiment, records, metric, unavailable=_unavailable(experiment, records))
    write = {Form.text: to_text, Form.markdown: to_markdown, Form.csv: to_csv}[form]
    typer.echo(write(made).rstrip("\n"))


def _unavailable(experiment: Experiment, records: list[dict[str, Any]]) -> tuple[str, ...]:
    """Graphs without a record that could only be downloaded: whether they can be had here, a run will tell."""
    from plgc.graphs.catalog import list_graphs, normalised

    here = {normalised(entry.name) for entry in list_graphs() if entry.where != "download"}
    seen = {record["cell"]["graph"] for record in records}
    names = [graph.name for graph in experiment.graphs]
    return tuple(graph for graph in names if graph not in seen and normalised(graph) not in here)


def _choice(
    datasets: str | None,
    methods: str | None,
    presets: str | None,
    nodes: str | None,
    noise: str | None,
    shots: str | None,
    seeds: int | None,
) -> Choice:
    """What the options ask for."""
    from plgc.experiments.grid import Choice

    return Choice(
        datasets=_list(datasets),
        methods=_list(methods),
        presets=_list(presets),
        nodes=_numbers("nodes", nodes, int),
        noise=_numbers("noise", noise, float),
        shots=_numbers("shots", shots, int),
        seeds=seeds,
    )


def _list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _numbers(option: str, text: str | None, kind: type[int] | type[float]) -> tuple[Any, ...] | None:
    try:
        return None if text is None else tuple(kind(part) for part in _list(text) or ())
    except ValueError as error:
        raise typer.BadParameter(f"--{option} is {text!r}: give numbers with commas between them") from error
