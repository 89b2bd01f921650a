"""Options that several commands share, so that each means, is called and is checked the same everywhere.

Choices are spelled out here, not imported: ``plgc --help`` must not wait for torch. A test compares them with the
package's own lists.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from plgc.rivals.methods import CONDENSERS
from plgc.runtime.errors import SettingError


class Preset(StrEnum):
    """The settings that ship, see :mod:`plgc.method.settings`."""

    default = "default"
    paper = "paper"


class Precision(StrEnum):
    """Of the encoders' products, see :mod:`plgc.method.settings`."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class Kind(StrEnum):
    """The kinds of GNN, see :mod:`plgc.method.encoder`."""

    gcn = "gcn"
    sage = "sage"
    gat = "gat"
    gin = "gin"
    sgc = "sgc"
    mlp = "mlp"


class Condenser(StrEnum):
    """The methods that condense, as :mod:`plgc.rivals.methods` has them."""

    _ignore_ = "method"
    plgc = "plgc"
    for method in CONDENSERS[1:]:
        vars()[method.replace("-", "_")] = method


class Edges(StrEnum):
    """The edges a condensation may see."""

    all = "all"
    train = "train"


class Task(StrEnum):
    """What a frozen backbone is used for."""

    node = "node"
    link = "link"
    cluster = "cluster"


class Part(StrEnum):
    """The nodes, or edges, on which a model is scored."""

    val = "val"
    test = "test"


class Engine(StrEnum):
    """Where several sources are condensed, see :mod:`plgc.sources.engine`."""

    serial = "serial"
    processes = "processes"
    ray = "ray"


class Partition(StrEnum):
    """How one graph is cut into parts, see :mod:`plgc.graphs.views.partition`."""

    random = "random"
    metis = "metis"
    skewed = "skewed"


class Combination(StrEnum):
    """How several sources teach one backbone, see :mod:`plgc.downstream.combine`."""

    heads = "heads"
    procrustes = "procrustes"
    shared_seed = "shared-seed"
    sum = "sum"


GRAPH_HELP = "A graph: a name from 'plgc data list', or a file: npz, edge list (CSV, TSV, Parquet), GraphML."

Graph = Annotated[str, typer.Option("--graph", metavar="GRAPH", help=GRAPH_HELP)]
NodesTable = Annotated[
    Path | None,
    typer.Option("--nodes-table", metavar="TABLE", help="For an edge list, the table of its nodes: CSV, TSV, Parquet."),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Which column is what, where a guess is wrong: source, target, weight, id, label, split, feature. Repeat.",
    ),
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Give numeric columns mean 0 and variance 1, for unlike units.")
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="fastrp:WIDTH", help="Derive features from the edges, in place of the graph's own."
    ),
]
FeaturesSeed = Annotated[
    int | None, typer.Option("--features-seed", min=0, metavar="N", help="Seed of derived features; by default 0.")
]
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Files made by 'plgc condense', or folders of them with a manifest."),
]
Combine = Annotated[
    Combination | None,
    typer.Option(help="How several sources are combined; by default heads (of the paper preset: sum)."),
]
Weights = Annotated[
    str | None, typer.Option(metavar="W,W", help="Weights of the sources, in their order; only ratios matter.")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Drives every random choice.")]
# An option whose metavar is its own name in capitals must be spelled out: some versions of typer capitalise it.
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1, …")]
Shots = Annotated[int | None, typer.Option(min=1, metavar="S", help="Use S training labels per class, not all.")]
Labels = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Use N training labels in all, evenly over the classes."),
]
Split = Annotated[int, typer.Option(min=0, metavar="I", help="Which of several fixed splits, from 0.")]
Backbone = Annotated[Kind, typer.Option(help="The kind of GNN to rebuild.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")]


def examples(*lines: str) -> str:
    """The end of a command's help: how it is used, line by line as it is typed."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def exactly_one(**options: object) -> None:
    """Usage error unless exactly one of the options was given."""
    given = [name for name, value in options.items() if value is not None]
    names = " or ".join(f"--{name}" for name in options)
    if not given:
        raise typer.BadParameter(f"give {names}")
    if len(given) > 1:
        raise typer.BadParameter(f"give either {names}, not both")


def at_most_one(**options: object) -> None:
    """Usage error when more than one of the options was given."""
    if sum(value is not None for value in options.values()) > 1:
        raise typer.BadParameter(f"give either {' or '.join(f'--{name}' for name in options)}, not both")


def parse_weights(text: str | None) -> list[float] | None:
    """Numbers separated by commas; a usage error for anything else."""
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights is {text!r}: give one number per source, such as 1,2,1") from error


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that is not there, before any work is done."""
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # a torch built without CUDA asserts
        reason = str(error).splitlines()[0]
        raise SettingError(f"device {name!r} cannot be used: {reason}. Try cpu") from error
