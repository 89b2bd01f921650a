"""``plgc audit`` measures what a file would tell about the nodes it was made from, before it is sent."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import MANIFEST, GraphOptions, check_features
from plgc.cli.options import Device, Graph, Json, check_device, examples, takes, values_of
from plgc.cli.output import facts, seconds, show, table, working

EXAMPLES = examples(
    "plgc audit cora.safetensors --graph cora",
    "plgc audit mine.safetensors --graph edges.csv --nodes-table nodes.csv --seeds 5 --json",
    "plgc audit mine.safetensors --graph mine.npz --outsiders others.npz",
)


@takes(GraphOptions)
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by 'plgc condense'.")],
    graph: Graph,
    outsiders: Annotated[
        str | None,
        typer.Option(metavar="GRAPH", help="Attack FILE itself: tell the graph's nodes from those of this graph."),
    ] = None,
    outsiders_table: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="For --outsiders that are an edge list, the table of its nodes."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Random halves to condense and attack.")] = 3,
    shadows: Annotated[
        int, typer.Option(min=0, metavar="N", help="Shadow files for each, unless members are found without.")
    ] = 4,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads.")] = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Measure what a file tells about the nodes of your graph, before you send it.

    FILE was made from all nodes of the graph, so random halves of it are condensed with FILE's settings and attacked:
    can the nodes of a half be told from the others? --outsiders attacks FILE itself, with nodes that were not in it;
    the more these differ anyway, the better any attack does. What can be counted in FILE itself is counted there.
    """
    if file.is_dir() or file.name == MANIFEST:
        raise typer.BadParameter(f"an audit is for one condensed graph: name a file in {file}")
    if outsiders is None and outsiders_table is not None:
        raise typer.BadParameter("--outsiders-table is for --outsiders: give both")
    check_device(device)
    named = GraphOptions(graph, **values_of(GraphOptions, given))
    import plgc
    from plgc.evaluation import audit as audit_file

    start = time.perf_counter()
    condensed = plgc.CondensedGraph.load(file)
    data = named.as_in(condensed.seen.preprocessing).open()
    check_features([condensed], data)
    others = None
    if outsiders is not None:
        beside = replace(named, graph=outsiders, nodes_table=outsiders_table)
        others = beside.as_in(condensed.seen.preprocessing).open()
        check_features([condensed], others)
    with working() as progress:
        found = audit_file(
            condensed,
            data,
            outsiders=others,
            seeds=seeds,
            shadows=shadows,
            device=device,
            threads=threads,
            progress=progress,
        )
    result = {"artifact": str(file), **found, "seconds": time.perf_counter() - start}
    show(result, audit_text(result), json)


def audit_text(result: dict[str, Any]) -> str:
    """The result of an audit as text."""
    told, words, rows = result["file"], result["words"], result["rows"]
    how = (
        f"the file, with {result['others']} nodes that were not in it"
        if result["attacked"] == "file"
        else f"{result['seeds']} file(s) of {result['members']} random nodes each, made as this one"
    )
    pairs = {
        "grade": f"{result['grade']}{': ' if result['reasons'] else ''}{'; '.join(result['reasons'])}",
        "advice": "; ".join(result["advice"]) or "none",
        "attacked": how,
        "members": f"AUC {_interval(result['auc'])} (.5 is guessing; in brackets 95 %), by "
        + result["strongest"].replace("_", " "),
        "found": f"{_interval(result['tpr'], 100, 1)} % of the members at 1 % false alarms",
        "hidden words": f"{100 * words['found']:.1f} % of a member's found at 1 % false alarms, of others "
        f"{100 * words['found_others']:.1f} %",
        "rows": f"{100 * rows['recovered']:.1f} % of the members' come back by their words, of others "
        f"{100 * rows['recovered_others']:.1f} %",
        "in the file": f"{told['exact_rows']} rows of nodes as they are, {told['words']} words, "
        f"{told['words_of_one']} of them of one node alone, {told['counts_of_one']} synthetic nodes that "
        f"stand for one node, {'a' if told['fingerprint'] else 'no'} fingerprint",
        "time": seconds(result["seconds"]),
    }
    ordered = sorted(result["attacks"].items(), key=lambda attack: -attack[1]["auc"])
    lines = [[name.replace("_", " "), f"{one['auc']:.3f}", f"{100 * one['tpr']:.1f} %"] for name, one in ordered]
    heading = ["attack", "AUC", "found at 1 %"]
    return f"{facts(pairs)}\n\n{table([heading, *lines])}"


def _interval(measured: dict[str, Any], scale: float = 1, digits: int = 3) -> str:
    low, high = (scale * value for value in measured["interval"])
    return f"{scale * measured['mean']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
