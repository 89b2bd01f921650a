"""The section "How was it made?": settings, versions, seed, and the command that makes the file again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from plgc.artifact.condensed import CondensedGraph
from plgc.artifact.lineage import lineage
from plgc.method.settings import PRESETS, PRIVATE_MIN_CLUSTER
from plgc.report.charts import NumberTable
from plgc.report.facts.files import FileFacts
from plgc.report.formatting import flattened, whole
from plgc.rivals.methods import METHODS

UNNAMED = "GRAPH"
SOURCES_MIN_CLUSTER = 5  # the default of 'plgc condense' for several sources
GUARDS = ("min_cluster", "max_share", "private")  # settings of a file that are no part of a preset


def provenance_section(
    files: Sequence[FileFacts], partition: Mapping[str, Any] | None, graph: str | None
) -> dict[str, Any]:
    """How every file was made and, for the parts of one graph, the command for all; ``graph`` as a command names it."""
    if partition is None or len(files) == 1:
        return {"command": None, "files": [_provenance(file, graph) for file in files]}
    return {
        "command": partition_command(files, partition, graph),
        "files": [_provenance(file, None) for file in files],
    }


def command(condensed: CondensedGraph, graph: str | None, name: str) -> tuple[str, list[str]]:
    """The command that makes a file again, and notes on what the command leaves out."""
    if condensed.ancestry:
        return _descent_command(condensed, graph, name)
    words: list[Any] = ["--nodes", condensed.nodes_requested, "--seed", condensed.seed, *_options(condensed)]
    if condensed.method == "plgc" and condensed.fingerprint is None and not _hides(condensed):
        words.append("--no-fingerprint")
    words += ["--threads", condensed.threads, "-o", f"{name}.safetensors"]
    notes = [] if graph else [f"{UNNAMED} is the graph: the file does not hold its name."]
    return _condense_command(graph, words), notes + _notes(condensed)


def _descent_command(condensed: CondensedGraph, graph: str | None, name: str) -> tuple[str, list[str]]:
    """The same for a file that was made from other files."""
    how, size = condensed.ancestry[-1].how, ["--nodes", condensed.nodes_requested]
    end = ["--threads", condensed.threads, "-o", f"{name}.safetensors"]
    notes = ["The files that it was made from have to be at hand: their checksums are below."]
    if how == "merge":
        return f"plgc merge FILES {shlex.join(map(str, [*size, *end[2:]]))}", notes
    words = [*(["--only-new"] if how == "update-only-new" else []), *size, "--seed", condensed.seed, *end]
    if how == "forget":
        notes = ["The file does not say which nodes were forgotten, nor from which file."]
        return f"plgc forget OLD --graph {graph or UNNAMED} --ids IDS {shlex.join(map(str, words))}", notes
    return f"plgc update OLD --graph {graph or UNNAMED} {shlex.join(map(str, words))}", notes


def partition_command(files: Sequence[FileFacts], partition: Mapping[str, Any], graph: str | None) -> str:
    """The command that cuts the graph again and condenses its parts into a folder."""
    first, words = files[0].condensed, ["--parts", partition["parts"], "--partition", partition["how"]]
    words += ["--alpha", f"{partition['alpha']:g}"] if "alpha" in partition else []
    words += ["--halo", partition["halo"]] if partition["halo"] else []
    words += ["--nodes", sum(file.condensed.nodes_requested for file in files), "--seed", partition["seed"]]
    words += ["--shared-seed"] if all(file.condensed.seed == partition["seed"] for file in files) else []
    words += ["--fingerprint"] if first.fingerprint is not None else []
    words += [*_options(first, SOURCES_MIN_CLUSTER), "--cpus", first.threads, "-o", "parts"]
    return _condense_command(graph, words)


def _condense_command(graph: str | None, words: Sequence[object]) -> str:
    """A call of ``plgc condense``, quoted for a shell; the graph is quoted already."""
    return f"plgc condense {graph or UNNAMED} {shlex.join(map(str, words))}"


def _options(condensed: CondensedGraph, min_cluster: int = 1) -> list[Any]:
    """Method, preset, view and guards as options, where they differ from the defaults (``min_cluster`` is one)."""
    seen, settings = condensed.seen, condensed.settings
    words: list[Any] = [] if condensed.method == "plgc" else ["--method", condensed.method]
    if settings.get("preset", "default") != "default":
        words += ["--preset", settings["preset"]]
    if seen.edges == "train":
        words += ["--edges", "train", *(["--edge-seed", seen.edge_seed] if seen.edge_seed else [])]
    if seen.derived is not None:
        seed = seen.derived["seed"]
        words += ["--features", seen.derived["features"], *(["--features-seed", seed] if seed else [])]
    words += ["--inductive"] if seen.nodes == "train" else []
    words += ["--split", seen.split] if seen.split else []
    private = bool(settings.get("private"))
    words += ["--private"] if private else []
    defaults = {"min_cluster": max(min_cluster, PRIVATE_MIN_CLUSTER) if private else min_cluster, "max_share": 1.0}
    for name, default in defaults.items():
        if settings.get(name, default) != default:
            words += [f"--{name.replace('_', '-')}", f"{settings[name]:g}"]
    if "clip" in settings:
        words += ["--clip", f"{settings['clip']:g}", "--noise", f"{settings['noise']:g}"]
    words += ["--dtype", settings["dtype"]] if settings.get("dtype", "float8") != "float8" else []
    words += ["--density", f"{settings['density']:g}"] if "density" in settings else []
    return words


def _hides(condensed: CondensedGraph) -> bool:
    """Whether it is private or noisy: such files never have a fingerprint."""
    return "clip" in condensed.settings or bool(condensed.settings.get("private"))


def _notes(condensed: CondensedGraph) -> list[str]:
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


def _provenance(file: FileFacts, graph: str | None) -> dict[str, Any]:
    condensed, method = file.condensed, file.condensed.method
    text, notes = command(condensed, graph, file.name)
    parts = [part for part in ("nodes", "edges") if getattr(condensed.seen, part) == "train"]
    return {
        "file": file,
        "command": text,
        "notes": notes,
        "method": f"{method} – {METHODS[method].about}" if method in METHODS else method,
        "origin": _origin(condensed),
        "lineage": lineage(condensed.ancestry),
        "table": None if condensed.seen.preprocessing is None else condensed.seen.preprocessing.summary(),
        "seen": ", ".join(f"training {part} alone" for part in parts) or "all nodes and edges",
        "settings": NumberTable("Settings", ["setting", "value"], flattened(condensed.settings)),
        "chosen": NumberTable("Chosen", ["what", "value"], flattened(condensed.chosen)),
    }


def _origin(condensed: CondensedGraph) -> str:
    source = condensed.source
    if "nodes" not in source:
        return "not recorded"
    noisy = "" if "edges" in source else "about "
    edges = f", {whole(source['edges'] // 2)} edges" if "edges" in source else ""
    halo = f", and a halo of {whole(source['halo'])} nodes" if source.get("halo") else ""
    return f"{noisy}{whole(source['nodes'])} nodes{edges}, {whole(condensed.num_features)} features{halo}"
