"""The command line: ``main`` is the entry point, each command has a module. It may import every package.

Results go to stdout (``--json``: exactly one JSON object), progress and messages to stderr. Exit codes: 0 done, 1 the
job cannot be done as asked (a :class:`plgc.runtime.errors.PLGCError`), 2 wrong usage, 130 interrupted. Commands raise
errors, :func:`main` prints them.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, cast

import typer

from plgc._version import __version__
from plgc.cli import (
    audit,
    condense,
    data,
    demo,
    evaluate,
    experiment,
    export,
    inspect,
    merge,
    predict,
    report,
    train,
    update,
)
from plgc.cli.options import examples, takes
from plgc.cli.output import detail, painted, seconds, start_messages
from plgc.runtime.errors import PLGCError
from plgc.runtime.text import visible_lines

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
# click's UsageError, whether typer brings click along or uses an installed one
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    name="plgc",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=condense.EXAMPLES)(condense.condense)
app.command(epilog=update.UPDATE_EXAMPLES)(update.update)
app.command(epilog=update.FORGET_EXAMPLES)(update.forget)
app.command(epilog=merge.EXAMPLES)(merge.merge)
app.command(epilog=inspect.EXAMPLES)(inspect.inspect)
app.command(epilog=audit.EXAMPLES)(audit.audit)
app.command(epilog=train.EXAMPLES)(train.train)
app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=predict.EXAMPLES)(predict.predict)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=report.EXAMPLES)(report.report)
app.add_typer(experiment.app, name="experiment")
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    start_messages()
    start = time.perf_counter()
    try:
        code = app(args=arguments, prog_name="plgc", standalone_mode=False) or 0
    except PLGCError as error:
        _report(error.kind, str(error), as_json)
        return FAILED
    except UsageError as error:
        if as_json:
            _report("usage", error.format_message(), as_json)
        else:
            error.message = visible_lines(error.message)
            error.show()
        return WRONG_USAGE
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _report("interrupted", "interrupted; no file was left half-written", as_json)
    else:
        detail(f"{', '.join(_versions())}; {seconds(time.perf_counter() - start)} in all")
    return code


def _report(kind: str, message: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": {"kind": kind, "message": message}}))
    else:
        typer.echo(f"{painted('error:', typer.colors.RED)} {visible_lines(message)}", err=True)


def _versions() -> list[str]:
    """The versions in use, without importing the packages."""
    found = [f"plgc {__version__}"]
    for package in ("torch", "torch-geometric"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return [*found, f"python {platform.python_version()}"]


def _show_versions(given: bool) -> None:
    if given:
        typer.echo("\n".join(_versions()))
        raise typer.Exit


@app.callback(
    epilog=examples(
        "plgc demo",
        "plgc condense edges.csv --nodes-table nodes.csv --ratio 0.02 -o mine.safetensors",
        "plgc report mine.safetensors --graph edges.csv --nodes-table nodes.csv -o mine.html",
        "plgc condense --help",
    )
)
@takes()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_versions, is_eager=True, help="Print the versions in use and exit."),
    ] = False,
    **_given: Any,
) -> None:
    """Condense a graph without labels, rebuild a GNN from the small file, and fine-tune it on a few labels."""
