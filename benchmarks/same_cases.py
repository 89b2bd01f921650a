"""What :mod:`same_files` has both versions make; run in a process of its own that imports one of them.

    PYTHONPATH=VERSION/src python benchmarks/same_cases.py INTO GRAPHS THREADS CASE …

Every case is run in a fork of this process, which has imported the package and computed nothing, and leaves a folder
``INTO/CASE``: files of tensors, or what a command printed. A case that fails leaves its traceback as ``error.txt``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import io
import json
import os
import pkgutil
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import plgc

SIZES = {"demo": 60, "cora": 70, "citeseer": 60}
RIVALS = (
    *("ctgc", "random", "herding", "herding-labelfree", "kcenter", "kcenter-labelfree", "coarsening", "gecc", "cgc-x"),
    *("gcdm-x", "dc-graph", "gcond-x", "gcond", "sfgc", "geom"),
)
# Long loops made short: the field by which a class of settings is known, and the values that all of its objects get.
SHORT: dict[str, dict[str, Any]] = {
    "outer_steps": {"epochs": 12, "outer_steps": 3, "inner_steps": 2, "adjacency_period": 5, "evaluate": (3, 6)},
    "student_steps": {
        "iterations": 6,
        "expert_epochs": 10,
        "student_steps": 8,
        "starts": 6,
        "start_step": 2,
        "choose_every": 2,
        "choice_epochs": 20,
    },
    "easy_share": {"experts": 3, "epochs": 20, "pace_epochs": 8},
    "pretrain_epochs": {"pretrain_epochs": 10, "rounds": 2, "round_epochs": 4, "inversion_steps": 60},
    "check_epochs": {"networks": 12, "steps": 2, "checks": 3, "check_epochs": 20},
}
TIMED = {"seconds", "peak_memory_bytes", "artifact", "manifest", "model", "output", "predictions"}  # differ by nature

Case = Callable[[Path, Path, int], None]


def command(*words: object) -> dict[str, Any]:
    """The JSON of one ``plgc`` command."""
    from plgc.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*map(str, words), "--json"])
    if code:
        raise RuntimeError(f"plgc {' '.join(map(str, words))} ended with {code}: {out.getvalue()}")
    return json.loads(out.getvalue())


def condensed(graph: str, *options: object) -> Case:
    """A case: one ``plgc condense``."""

    def case(into: Path, graphs: Path, threads: int) -> None:
        file = graphs / f"{graph}.npz"
        name = file if file.is_file() else graph
        nodes = () if "--nodes" in options else ("--nodes", SIZES.get(graph, 30))
        where = () if "--parts" in options else ("--threads", threads)
        out = into if "--parts" in options else into / "condensed.safetensors"
        command("condense", name, *nodes, *options, *where, "-o", out)

    return case


def in_large_batches(into: Path, graphs: Path, threads: int) -> None:
    """More than the 32,768 nodes up to which a memory limit leaves a graph whole, with narrow encoders."""
    settings = importlib.import_module("plgc.config")
    values = settings.preset("default").to_dict()
    for branch in values["encoders"]:
        branch.update(hidden=16, width=8)
    values["pseudo_labels"].update(rounds=2, round_epochs=3)
    narrow = settings.CondenseSettings.from_dict(values)
    graph = plgc.load_graph(graphs / "large.npz")
    plgc.condense(graph, nodes=20, settings=narrow, memory="2GiB", threads=threads).save(into / "condensed.safetensors")


def stored(into: Path, graphs: Path, threads: int) -> None:
    """Dense float16 features in a folder of arrays, which are mapped and not read."""
    graph = plgc.load_graph(graphs / "small.npz")
    assert graph.x is not None
    graph.x = graph.x.to_dense()
    plgc.graphs.save_stored(graph, into / "graph", dtype="float16")
    command("condense", into / "graph", "--nodes", 20, "--threads", threads, "-o", into / "condensed.safetensors")
    shutil.rmtree(into / "graph")


def rival(name: str) -> Case:
    """A case: one rival on a small graph, with its loops made short."""

    def case(into: Path, graphs: Path, threads: int) -> None:
        methods = importlib.import_module("plgc.methods")
        shorten()
        graph = plgc.load_graph(graphs / "small.npz", seed=3)
        labels = plgc.graphs.training_labels(graph) if methods.METHODS[name].supervised else None
        made = methods.condense_with(name, graph, nodes=21, seed=3, labels=labels, threads=threads)
        made.save(into / "condensed.safetensors")

    return case


def shorten() -> None:
    """Give every object of settings of the rivals, there already or made later, short loops."""
    for module in pkgutil.walk_packages(plgc.__path__, "plgc."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(plgc.PLGCError, ImportError):
                importlib.import_module(module.name)
    for found in gc.get_objects():
        fields = {field.name for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
        for known, values in SHORT.items():
            if known in fields and isinstance(found, type):
                _shorten_class(found, values)
            elif known in fields:
                _set(found, values)


def _shorten_class(kind: Any, values: dict[str, Any]) -> None:
    make = kind.__init__

    def made_short(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        _set(self, values)

    kind.__init__ = made_short


def _set(settings: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(settings, name, value)
    if getattr(settings, "window", None) is not None:
        object.__setattr__(settings, "window", 3)


def scored(*options: object, condense: tuple[object, ...] = ()) -> Case:
    """A case: what ``plgc evaluate`` says of a file."""

    def case(into: Path, graphs: Path, threads: int) -> None:
        graph, file = graphs / "small.npz", into / "condensed.safetensors"
        command("condense", graph, "--nodes", 20, *condense, "--threads", threads, "-o", file)
        say(into, command("evaluate", file, "--graph", graph, "--seeds", 2, *options))

    return case


def answered(into: Path, graphs: Path, threads: int) -> None:
    """A model, and its answers for every node."""
    graph, file, model = graphs / "small.npz", into / "condensed.safetensors", into / "model.safetensors"
    command("condense", graph, "--nodes", 20, "--threads", threads, "-o", file)
    say(into, command("train", file, "--graph", graph, "--shots", 5, "-o", model))
    command("predict", model, "--graph", graph, "-o", into / "answers.csv")


def say(into: Path, result: dict[str, Any]) -> None:
    """Keep what a command printed, without times and paths."""
    (into / "said.json").write_text(json.dumps(_timeless(result), indent=1, sort_keys=True))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key not in TIMED}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


CASES: dict[str, Case] = {
    **{f"{graph}-{preset}": condensed(graph, "--preset", preset) for graph in SIZES for preset in ("default", "paper")},
    "demo-memory": condensed("demo", "--memory", "600MiB"),
    "cora-memory": condensed("cora", "--memory", "620MiB"),
    "demo-parts": condensed("demo", "--parts", 3),
    "cora-parts": condensed("cora", "--parts", 3),
    "parts-metis-halo": condensed("small", "--parts", 3, "--partition", "metis", "--halo", 1),
    "large-memory": in_large_batches,
    "stored-float16": stored,
    "training-edges": condensed("small", "--edges", "train", "--edge-seed", 2),
    "inductive": condensed("small", "--inductive"),
    # without noise, which is never the same twice
    "released": condensed("small", "--min-cluster", 3, "--max-share", 0.5, "--no-fingerprint"),
    "derived": condensed("bare", "--features", "fastrp:16"),
    **{f"rival-{name}": rival(name) for name in RIVALS},
    "evaluate": scored("--shots", 3),
    "evaluate-link": scored("--task", "link", condense=("--edges", "train")),
    "evaluate-cluster": scored("--task", "cluster", condense=("--inductive",)),
    "evaluate-rival": scored(condense=("--method", "kcenter")),
    "train-predict": answered,
}


def make_graphs(folder: Path) -> None:
    """The graphs that are not known by name, each once."""
    folder.mkdir(parents=True, exist_ok=True)
    make = plgc.graphs.citation_graph
    sizes = {"small": {"nodes": 400, "features": 120, "classes": 4}, "bare": {"nodes": 300, "features": 20}}
    for name, size in {**sizes, "large": {"nodes": 33_000, "features": 24, "classes": 5}}.items():
        if not (folder / f"{name}.npz").is_file():
            graph = make(**size)
            if name == "bare":
                graph.x = None
            plgc.graphs.save_npz(graph, folder / f"{name}.npz")


def run(name: str, into: Path, graphs: Path, threads: int) -> None:
    """One case in a fork: the folder is there in the end, with a result or with the error."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(threads)
        shutil.rmtree(into / name, ignore_errors=True)
        work = into / f"{name}.part"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            CASES[name](work, graphs, threads)
        except BaseException:
            (work / "error.txt").write_text(traceback.format_exc())
        work.rename(into / name)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    into, graphs, threads = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    make_graphs(graphs)
    for name in sys.argv[4:]:
        run(name, into, graphs, threads)
        print(name, flush=True)


if __name__ == "__main__":
    main()
