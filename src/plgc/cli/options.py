"""Options that several commands share, and groups of options: each is named, explained and checked in one place.

A group is a class whose fields are options. A command decorated with :func:`takes` has the options of its groups on the
command line and gets their values in ``**given``: :func:`values_of` and :func:`chosen` return those of one group.
Choices are written out here, since ``plgc --help`` must not wait for torch; a test compares them with the package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from plgc.cli.output import DETAIL, ERRORS, LOG, NOTICE
from plgc.rivals.methods import CONDENSERS

Preset = StrEnum("Preset", ["default", "paper"])  # plgc.method.settings
Precision = StrEnum("Precision", ["float32", "bfloat16"])  # plgc.runtime.options
Dtype = StrEnum("Dtype", ["float8", "float16", "float32"])  # plgc.artifact.rounding
Kind = StrEnum("Kind", ["gcn", "sage", "gat", "gin", "sgc", "mlp"])  # plgc.method.encoder
Edges = StrEnum("Edges", ["all", "train"])  # plgc.graphs.attributes
TaskName = StrEnum("TaskName", ["node", "link", "cluster"])  # plgc.graphs.views.protocol
ScoredOn = StrEnum("ScoredOn", ["val", "test"])  # plgc.evaluation
Engine = StrEnum("Engine", ["serial", "processes", "ray"])  # plgc.sources.engine
Partition = StrEnum("Partition", ["random", "metis", "stream", "skewed"])  # plgc.graphs.views.partition
Decimal = StrEnum("Decimal", ["comma", "point"])
Stored = StrEnum("Stored", ["float32", "float16"])  # plgc.graphs.store
Combination = StrEnum(  # plgc.downstream.combine
    "Combination",
    {"heads": "heads", "merged": "merged", "procrustes": "procrustes", "shared_seed": "shared-seed", "sum": "sum"},
)


class Condenser(StrEnum):
    """The methods that condense, as :mod:`plgc.rivals.methods` has them."""

    _ignore_ = "method"
    plgc = "plgc"
    for method in CONDENSERS[1:]:
        vars()[method.replace("-", "_")] = method


GRAPH_HELP = "A graph: a name from 'plgc data list', or a file: npz, edge list (CSV, TSV, Parquet), GraphML."

Graph = Annotated[str, typer.Option("--graph", metavar="GRAPH", help=GRAPH_HELP)]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Drives every random choice.")]
# An option whose metavar is its own name in capitals must be spelled out: some versions of typer capitalise it.
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1, …")]
Shots = Annotated[int | None, typer.Option(min=1, metavar="S", help="Use S training labels per class, not all.")]
Split = Annotated[int, typer.Option(min=0, metavar="I", help="Which of several fixed splits, from 0.")]
Backbone = Annotated[Kind, typer.Option(help="The kind of GNN to rebuild.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")]


def _set_level(level: int) -> Callable[[bool], None]:
    def set_level(given: bool) -> None:
        if given and LOG.level not in (level, NOTICE):
            raise typer.BadParameter("give --verbose or --quiet, not both")
        if given:
            LOG.setLevel(level)

    return set_level


class MessageOptions:
    """How much is printed on stderr; every command has them, and they take effect while options are read."""

    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", callback=_set_level(DETAIL), help="Print settings and times, on stderr.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", callback=_set_level(ERRORS), help="No progress and no notices.")
    ] = False


@dataclass(frozen=True)
class DiskOptions:
    """How graphs that are larger than memory are worked on."""

    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stay within this, as in 4GiB: a graph on disk is worked on block by block."),
    ] = None
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to keep what does not fit into memory, while the command runs."),
    ] = None

    def __post_init__(self) -> None:
        if self.scratch is not None and self.memory is None:
            raise typer.BadParameter("--scratch is for what does not fit into memory: give --memory with it")


def takes(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these groups, and those on messages; their values arrive in its ``**given``.

    Only the signature that typer reads is changed: the command is called directly.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for group in (*groups, MessageOptions)
            for name, (annotation, default) in _options(group).items()
        ]
        vars(command)["__signature__"] = signature.replace(parameters=[*own, *added])
        return command

    return decorate


def values_of(group: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group by name, choices as plain text."""
    return {name: str(given[name]) if isinstance(given[name], StrEnum) else given[name] for name in _options(group)}


def chosen(group: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of a group that are not at their default."""
    return {name: value for name, value in values_of(group, given).items() if value != _options(group)[name][1]}


def _options(group: type) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each option of a group. Fields that are no options are left out."""
    hints = get_type_hints(group, include_extras=True)
    return {name: (hint, getattr(group, name)) for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def examples(*lines: str) -> str:
    """The end of a command's help: example command lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def exactly_one(**options: object) -> None:
    """Usage error unless exactly one of the options was given."""
    if all(value is None for value in options.values()):
        raise typer.BadParameter(f"give {' or '.join(f'--{name}' for name in options)}")
    at_most_one(**options)


def at_most_one(**options: object) -> None:
    """Usage error when more than one of the options was given."""
    if sum(value is not None for value in options.values()) > 1:
        raise typer.BadParameter(f"give either {' or '.join(f'--{name}' for name in options)}, not both")


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that is not there, before any work is done."""
    from plgc.runtime import options

    options.check_device(name)
