"""Run an experiment: every cell that has no record yet, in processes side by side, each record written as it is made.

Stopping a run at any moment loses the cells under way and nothing else: records are lines added whole, condensed graphs
are files written whole, and running again does what is missing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from plgc.experiments.cell import RunOptions, run_cell
from plgc.experiments.grid import Cell, cells
from plgc.experiments.records import append_record, identity, read_records
from plgc.experiments.spec import Experiment
from plgc.graphs.catalog import get_graph
from plgc.runtime.errors import GraphNotFoundError, PLGCError, SettingError
from plgc.runtime.files import WriteError, check_writable
from plgc.runtime.progress import Progress, duration, silent
from plgc.runtime.provenance import provenance
from plgc.sources.engine import Task, TaskResult, run_tasks


@dataclass
class RunSummary:
    """Cells in all, done before, run now and failed; and, for graphs that could not be loaded, the reason."""

    cells: int = 0
    already: int = 0
    run: int = 0
    failed: int = 0
    unavailable: dict[str, str] = field(default_factory=dict)


def run_experiment(
    experiment: Experiment, options: RunOptions, *, jobs: int = 1, progress: Progress | None = None
) -> RunSummary:
    """Run every cell that has no record yet.

    Args:
        experiment: what to run; :func:`plgc.experiments.grid.narrow` makes it smaller.
        options: where records and condensed graphs go, and what to compute with.
        jobs: processes side by side; 1 runs everything in this one.
        progress: called with a message, the cells done and the cells in all.
    """
    if experiment.pending:
        raise SettingError(f"{experiment.name} cannot be run yet: {experiment.pending}")
    check_writable(options.records)
    options = replace(options, store=None if experiment.reuse == "none" else options.store, reuse=experiment.reuse)
    if options.store is not None:
        check_writable(options.store / "any.safetensors")
    report = progress or silent
    unavailable = {graph.name: reason for graph in experiment.graphs if (reason := _unavailable(graph.name))}
    if len(unavailable) == len(experiment.graphs):
        raise GraphNotFoundError(f"none of the experiment's graphs is available: {next(iter(unavailable.values()))}")
    planned = [cell for cell in cells(experiment) if cell.graph not in unavailable]
    done = {identity(record) for record in read_records([options.records]) if "error" not in record}
    missing = [cell for cell in planned if cell.identity() not in done]
    summary = RunSummary(len(planned), len(planned) - len(missing), unavailable=unavailable)
    report(f"{summary.already} of {summary.cells} cells done already", summary.already, summary.cells)
    start = time.perf_counter()

    def finished(result: TaskResult) -> None:
        if result.error is not None or isinstance(result.value, WriteError):
            raise _failure(result)
        run, failed = result.value
        summary.run, summary.failed = summary.run + run, summary.failed + failed
        count = summary.run + summary.failed
        left = (time.perf_counter() - start) / count * (len(missing) - count)
        report(f"{result.name}; about {duration(left)} left", summary.already + count, summary.cells)

    groups = [[cell] for cell in missing] if jobs == 1 else groups_of(missing)
    tasks = [Task(_describe(group[-1]), (group, options)) for group in groups]
    where: dict[str, Any] = {"engine": "serial" if jobs == 1 else "processes", "workers": jobs, "retries": 0}
    run_tasks(_run_cells, tasks, **where, cpus=options.threads, finished=finished)
    return summary


def groups_of(missing: Sequence[Cell]) -> list[list[Cell]]:
    """Cells that may share a condensed graph, in order: one process takes them all, so it is condensed once."""

    def shared(cell: Cell) -> tuple[Any, ...]:
        levels = cell.partition, cell.variant, cell.release, cell.history
        return cell.seed, cell.graph, cell.method, cell.preset, cell.nodes, *levels

    return [list(group) for _, group in itertools.groupby(missing, shared)]


def _run_cells(group: Sequence[Cell], options: RunOptions) -> tuple[int, int] | WriteError:
    """Run cells one after the other and write their records, with the reason where one fails; how many ran and failed.

    The error of a file that cannot be written is returned, to be raised in the process that was called.
    """
    failed = 0
    try:
        for cell in group:
            try:
                record = run_cell(cell, options)
            except (PLGCError, torch.OutOfMemoryError) as error:
                record = {"cell": asdict(cell), "error": str(error), **provenance(options.device)}
                failed += 1
            append_record(options.records, record)
    except WriteError as error:
        return error
    return len(group) - failed, failed


def _failure(result: TaskResult) -> Exception:
    """Why a run cannot go on."""
    if result.error is None:
        return result.value
    if result.error.kind == "worker-died":
        return SettingError(
            "a process died, perhaps for lack of memory; finished cells are kept. Run the same command again, with "
            "fewer --jobs"
        )
    return RuntimeError(f"{result.name}: {result.error.message}\n{result.error.traceback}")


def _unavailable(name: str) -> str | None:
    """Why a graph cannot be loaded here, after a download was tried where that is possible; None where it can."""
    try:
        get_graph(name)
    except GraphNotFoundError as error:
        return str(error)
    return None


def _describe(cell: Cell) -> str:
    parts = [cell.graph, cell.method, None if cell.nodes is None else f"{cell.nodes} nodes", f"seed {cell.seed}"]
    return ", ".join(part for part in parts if part)
