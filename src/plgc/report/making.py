"""The section "How was it made?": settings, versions, seed, and the command that makes it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from typing import Any

import torch

from plgc._version import __version__
from plgc.artifact.condensed import CondensedGraph
from plgc.method.settings import PRESETS
from plgc.report.html import Html, details, facts, join, table, tag
from plgc.report.study import Study
from plgc.report.text import counted, flattened, plain, whole
from plgc.rivals.methods import METHODS

UNNAMED = "GRAPH"
GUARDS = ("min_cluster", "max_share")


def making(study: Study, graph: str | None) -> Html:
    """The section's content for one file."""
    condensed = study.condensed
    text, notes = command(condensed, graph, study.name)
    block = tag("pre", tag("code", text), tabindex="0", role="region", aria_label="The command that makes it again")
    settings = flattened(condensed.settings)
    chosen = flattened(condensed.chosen)
    return join(
        [
            block,
            *(tag("p", note, class_="note") for note in notes),
            facts(_facts(study)),
            details("All settings", table(["setting", "value"], settings, "Settings")) if settings else None,
            details("Chosen from the graph", table(["what", "value"], chosen, "Chosen")) if chosen else None,
        ]
    )


def versions() -> str:
    """What the report itself was made with."""
    return f"plgc {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def command(condensed: CondensedGraph, graph: str | None, name: str) -> tuple[str, list[str]]:
    """The command that makes a file again, and what it does not say."""
    words: list[Any] = ["--nodes", condensed.nodes_requested, "--seed", condensed.seed, *options(condensed)]
    if condensed.method == "plgc" and condensed.fingerprint is None and "clip" not in condensed.settings:
        words.append("--no-fingerprint")
    words += ["--threads", condensed.threads, "-o", f"{name}.safetensors"]
    notes = [] if graph else [f"{UNNAMED} stands for the graph: the file does not know its name."]
    return quoted(graph, words), notes + _caveats(condensed)


def quoted(graph: str | None, words: Sequence[object]) -> str:
    """A call of ``plgc condense`` that a shell takes as it is meant; the graph is quoted already."""
    return f"plgc condense {graph or UNNAMED} {' '.join(shlex.quote(str(word)) for word in words)}"


def options(condensed: CondensedGraph, min_cluster: int = 1) -> list[Any]:
    """Method, preset, view and guards as options, where they are not the usual ones; ``min_cluster`` is the usual."""
    seen, settings = condensed.seen, condensed.settings
    words: list[Any] = [] if condensed.method == "plgc" else ["--method", condensed.method]
    if settings.get("preset", "default") != "default":
        words += ["--preset", settings["preset"]]
    if seen["edges"] == "train":
        words += ["--edges", "train", *(["--edge-seed", seen["edge_seed"]] if seen["edge_seed"] else [])]
    if "derived" in seen:
        mark = seen["derived"]
        words += ["--features", mark["features"], *(["--features-seed", mark["seed"]] if mark["seed"] else [])]
    words += ["--inductive"] if seen["nodes"] == "train" else []
    words += ["--split", seen["split"]] if seen.get("split") else []
    for name, usual in (("min_cluster", min_cluster), ("max_share", 1.0)):
        if settings.get(name, usual) != usual:
            words += [f"--{name.replace('_', '-')}", f"{settings[name]:g}"]
    if "clip" in settings:
        words += ["--clip", f"{settings['clip']:g}", "--noise", f"{settings['noise']:g}"]
    return words


def _caveats(condensed: CondensedGraph) -> list[str]:
    settings, found = condensed.settings, []
    if settings.get("noise"):
        found.append("The noise comes from the system's entropy: another run gives other bytes.")
    preset = PRESETS.get(str(settings.get("preset")))
    if condensed.method == "plgc" and preset is not None:
        kept = {key: value for key, value in preset.to_dict().items() if key not in (*GUARDS, "synthesis")}
        if any(settings.get(key) != value for key, value in kept.items()):
            found.append("Its settings are not the preset's own: give those below to plgc.condense in Python.")
    if condensed.source.get("halo"):
        found.append("It is one part of a larger graph with a halo of neighbours: the command is for the part alone.")
    if condensed.method in METHODS and METHODS[condensed.method].supervised:
        found.append("The method reads the graph's training labels.")
    return found


def _facts(study: Study) -> dict[str, object]:
    condensed = study.condensed
    source, seen = condensed.source, condensed.seen
    noisy = "" if "edges" in source else "about "
    edges = f", {whole(source['edges'] // 2)} edges" if "edges" in source else ""
    halo = f", and a halo of {whole(source['halo'])} nodes" if source.get("halo") else ""
    views = {"nodes": "training nodes alone", "edges": "training edges alone"}
    shown = [words for part, words in views.items() if seen[part] == "train"]
    return {
        "Method": f"{condensed.method} – {METHODS[condensed.method].about}"
        if condensed.method in METHODS
        else condensed.method,
        "Made with": f"plgc {condensed.version}, seed {condensed.seed}, {counted(condensed.threads, 'thread')}",
        "Preset": plain(condensed.settings.get("preset")),
        "Made from": f"{noisy}{whole(source['nodes'])} nodes{edges}, {whole(condensed.num_features)} features{halo}"
        if "nodes" in source
        else "not recorded",
        "It saw": ", ".join(shown) or "all nodes and edges",
        "Row scaling of features": condensed.scaling,
        "Fingerprint of the graph": tag("code", condensed.fingerprint) if condensed.fingerprint else "none",
        "SHA-256 of the file": tag("code", study.sha256),
    }
