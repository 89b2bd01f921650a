"""Condense in a process that is killed (SIGKILL) again and again, until it is done; compare with an undisturbed run.

A life of the process ends after a random time, or within the writing of a file: just before or after one of the calls
that flush, rename or remove it. ``python tests/soak/killed_runs.py NAME KILLS [SEED]`` prints what came of it as JSON.

Lives are forked from this process, which has imported everything and never computes: a kill costs no second import.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs import citation_graph, training_labels
from plgc.method import batches
from plgc.method.condense import condense
from plgc.method.settings import CondenseSettings, preset
from plgc.rivals.gradient import condense as gradient
from plgc.rivals.gradient.settings import GradientSettings
from plgc.rivals.methods import condense_with
from plgc.runtime.checkpoint import checkpoint_folder

STEPS = ("fsync", "replace", "unlink")  # of the system, by which a file is written and removed
RIVAL = GradientSettings(epochs=40, outer_steps=4, inner_steps=3, hidden=16, adjacency_hidden=8, evaluate=(20,))


def settings(name: str) -> CondenseSettings:
    """One of the presets with narrow encoders, so that a run takes a second or so."""
    values = preset(name).to_dict()
    for branch in values["encoders"]:
        branch.update(hidden=24, width=16)
    if values["plain"] is not None:
        values["plain"].update(hidden=24, width=16)
    values["pseudo_labels"].update(round_epochs=6)
    return CondenseSettings.from_dict(values)


def make(name: str, checkpoint: Any) -> CondensedGraph:
    """What is condensed, and by which method."""
    graph = citation_graph(nodes=150, classes=3, features=60)
    if name == "memory":  # in batches, as of a graph that does not fit
        for constant, value in {"BLOCK": 16, "SMALLEST": 64, "LARGEST": 96, "PROGRAM": 0, "SAMPLE": 128}.items():
            setattr(batches, constant, value)
        limited: dict[str, Any] = {"settings": settings("default"), "checkpoint": checkpoint, "threads": 1}
        condensed = condense(graph, nodes=12, seed=7, memory="500KiB", **limited)
        assert "batch_nodes" in condensed.chosen
        return condensed
    if name in ("default", "paper"):
        return condense(graph, nodes=12, seed=7, settings=settings(name), checkpoint=checkpoint, threads=1)
    labels = training_labels(graph)
    gradient.SAVE_EVERY, gradient.ON_CONDENSED = 2, replace(gradient.ON_CONDENSED, epochs=10)
    return condense_with(name, graph, labels=labels, nodes=12, seed=7, settings=RIVAL, checkpoint=checkpoint)


def run(name: str, folder: Path) -> None:
    """What the command line does: condense with checkpoints, write the file, remove the checkpoints."""
    place = checkpoint_folder(folder / "kept", folder / "condensed.safetensors")
    condensed = make(name, place)
    condensed.save(folder / "condensed.safetensors")
    place.clear()


def die_at(call: int) -> None:
    """Kill this process at its n-th call that writes; before the call where n is even, else after it."""
    left = [call]

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and call % 2 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            value = real(*arguments, **options)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return value

        return step

    for step in STEPS:
        setattr(os, step, deadly(getattr(os, step)))


def live(work: Callable[[], None], seconds: float | None = None, call: int | None = None) -> bool:
    """Do the work in a process of its own that is killed after a time or at a call; whether it was done before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            if call is not None:
                die_at(call)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)  # one that has ended is still to be waited for: the number is not reused
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError("a life ended with an error of its own")
    return os.WIFEXITED(status)


def soak(name: str, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill runs until there were enough kills; every run that ends must have the bytes of the undisturbed one."""
    draw = random.Random(f"{name} {seed}")
    count = {"kills": 0, "within_writing": 0, "resumed": 0, "runs": 0, "identical": 0}
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, "whole")
        start = time.monotonic()
        assert live(lambda: run(name, whole))
        taken = time.monotonic() - start
        wanted = (whole / "condensed.safetensors").read_bytes()
        while count["kills"] < kills or not count["resumed"]:
            folder = Path(place, f"run{count['runs']}")
            output, ended = folder / "condensed.safetensors", False
            while not ended:
                count["resumed"] += any((folder / "kept").glob("*.checkpoint"))
                enough = count["kills"] >= kills and count["resumed"] > 0
                writing = draw.random() < 0.4 and not enough
                seconds = None if writing or enough else draw.uniform(0.0, 0.8 * taken)
                ended = live(lambda at=folder: run(name, at), seconds, draw.randint(1, 24) if writing else None)
                count["kills"] += not ended
                count["within_writing"] += writing and not ended
                # killed or not: there is no file, or the right one
                assert not output.exists() or output.read_bytes() == wanted, "another file than the undisturbed run's"
            assert output.exists()
            assert not list((folder / "kept").glob("*.checkpoint")), "a checkpoint is left of a run that ended well"
            count["runs"] += 1
            count["identical"] += 1
    return {"what": name, **count}


if __name__ == "__main__":
    print(json.dumps(soak(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)))
