"""Run an experiment: every cell that has no record yet, in processes side by side, each record written as it is made.

Stopping a run at any moment loses the cell under way and nothing else: records are lines added whole, condensed graphs
are files written whole, and running again does what is missing.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from plgc.experiments.cell import Place, run_cell
from plgc.experiments.grid import Cell, cells
from plgc.experiments.records import append_record, identity, read_records
from plgc.experiments.spec import Experiment
from plgc.graphs.catalog import get_graph
from plgc.runtime.errors import GraphNotFoundError, PLGCError, SettingError
from plgc.runtime.files import check_writable
from plgc.runtime.progress import Progress, silent
from plgc.runtime.provenance import COMMIT_VARIABLE, provenance, source_commit
from plgc.sources.engine import interrupts_held, start_worker


@dataclass
class Outcome:
    """What a run has done: cells in all, found done, run now, failed; and why graphs could not be had."""

    cells: int = 0
    already: int = 0
    run: int = 0
    failed: int = 0
    unavailable: dict[str, str] = field(default_factory=dict)


def run_experiment(experiment: Experiment, place: Place, *, jobs: int = 1, progress: Progress | None = None) -> Outcome:
    """Run every cell that has no record yet.

    Args:
        experiment: what to run; :func:`plgc.experiments.grid.narrow` makes it smaller.
        place: where records and condensed graphs go, and what to compute with.
        jobs: processes side by side; 1 runs everything in this one.
        progress: called with a message, the cells done and the cells in all.
    """
    if experiment.pending:
        raise SettingError(f"{experiment.name} cannot be run yet: {experiment.pending}")
    check_writable(place.records)
    place = place if experiment.reuse else replace(place, store=None)
    if place.store is not None:
        check_writable(place.store / "any.safetensors")
    report = progress or silent
    unavailable = {graph.name: reason for graph in experiment.graphs if (reason := _unavailable(graph.name))}
    if len(unavailable) == len(experiment.graphs):
        raise GraphNotFoundError(f"none of the experiment's graphs is available: {next(iter(unavailable.values()))}")
    wanted = [cell for cell in cells(experiment) if cell.graph not in unavailable]
    done = {identity(record) for record in read_records([place.records]) if "error" not in record}
    missing = [cell for cell in wanted if cell.identity() not in done]
    outcome = Outcome(len(wanted), len(wanted) - len(missing), unavailable=unavailable)
    groups = list(_groups(missing))
    start, finished = time.perf_counter(), 0
    report(f"{outcome.already} of {len(wanted)} cells done already", outcome.already, len(wanted))
    for group, failed in _run_groups(groups, place, jobs):
        finished += len(group)
        outcome.run += len(group) - failed
        outcome.failed += failed
        left = (time.perf_counter() - start) / finished * (len(missing) - finished)
        message = f"{_describe(group[-1])}; about {_duration(left)} left"
        report(message, outcome.already + finished, len(wanted))
    return outcome


def _groups(missing: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells that may share a condensed graph, in order: one process takes them all, so it is condensed once."""

    def shared(cell: Cell) -> tuple[Any, ...]:
        return cell.seed, cell.graph, cell.method, cell.preset, cell.nodes, cell.partition

    for _, group in itertools.groupby(missing, shared):
        yield list(group)


def _run_groups(groups: list[list[Cell]], place: Place, jobs: int) -> Iterator[tuple[list[Cell], int]]:
    """Run groups of cells, yielding each when it is done with the number of its cells that failed."""
    if jobs == 1:
        before = torch.get_num_threads()
        torch.set_num_threads(place.threads)
        try:
            for group in groups:
                for cell in group:
                    yield [cell], _run_group([cell], place)
        finally:
            torch.set_num_threads(before)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(place.threads, source_commit()))
    try:
        with interrupts_held():
            pending: dict[Future[int], list[Cell]] = {pool.submit(_run_group, group, place): group for group in groups}
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()
    except BrokenProcessPool as error:
        raise SettingError(
            "a process died, perhaps for lack of memory; finished cells are kept. Run the same command again, with "
            "fewer --jobs"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()


def _run_group(group: list[Cell], place: Place) -> int:
    """Run cells one after the other and write their records; a cell that cannot be done leaves the reason."""
    failed = 0
    for cell in group:
        try:
            record = run_cell(cell, place)
        except (PLGCError, torch.OutOfMemoryError) as error:
            record = {"cell": asdict(cell), "error": str(error), **provenance(place.device)}
            failed += 1
        append_record(place.records, record)
    return failed


def _start_worker(threads: int, commit: str | None) -> None:
    start_worker()
    os.environ[COMMIT_VARIABLE] = commit or ""
    torch.set_num_threads(threads)


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


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
