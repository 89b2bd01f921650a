"""What the records of an experiment say, in sentences made by rule.

"above", "level" and "below" are said by :func:`plgc.experiments.differences.verdict` alone. What is written by hand
here carries no measured number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from plgc.experiments.differences import Difference, less_best, verdict
from plgc.experiments.numbers import mean_std, spread, unit, with_interval
from plgc.experiments.rows import ANY, OURS, PROTOCOL, PUBLISHED, SummaryRow
from plgc.experiments.summary import level_values
from plgc.graphs.catalog import title
from publish_histories import forgetting, histories
from publish_words import MAIN, Results, counts, every_place, level_words, not_above, rivals

EARLIER = """**These records are from before the linear inversion was one of the attacks**, which finds the members of a
default file nearly without error: [many owners](many_owners.md#who-was-in-the-graph) has what was measured since. Low
figures here are no protection against it."""


def short(results: Results) -> str:
    """The sentences of one experiment."""
    return "\n".join(SENTENCES.get(results.experiment.name, standard)(results))


def standard(results: Results) -> Iterator[str]:
    """The controls, then the rivals."""
    yield from controls(results)
    yield from rival_lines(results)


def controls(results: Results) -> Iterator[str]:
    """Ours against the best control: a line for every value of the level, with all graphs."""
    across = results.experiment.across
    known = (across,) if across else ()
    for value in level_values(results.experiment, results.ours(), across) if across else (None,):
        rows = [row for row in results.ours() if across is None or row.level(across) == value]
        found = results.compared(rows, lambda row: row.less_control, known)
        at = f", {level_words(across, value)}" if across and not (value is None and across in ANY) else ""
        if found:
            yield f"- Best control{at}: {every_place(found)}."


def rival_lines(results: Results) -> Iterator[str]:
    """Ours less every rival in every way of scoring."""
    lines = rivals(results)
    if lines:
        graphs = " and ".join(title(name) for name in MAIN)
        yield f"\nOurs less each method, by way of scoring; on {graphs} every cell that is not above is named:\n"
        yield from lines


def every_graph(results: Results) -> Iterator[str]:
    """Controls with all labels and with three, and networks trained end to end."""
    chosen = [row for row in results.rows if row.level("shots") in (None, 3)]
    yield from controls(results._replace(rows=chosen))
    for method in results.experiment.against:
        found = results.compared([row for row in chosen if row.method == method], lambda row: row.ours_less)
        if found:
            yield f"- `{method}`, trained end to end: {not_above(found)}."
    others = [row for row in chosen if row.method not in results.experiment.against]
    yield from rival_lines(results._replace(rows=others))


def beside_paper(results: Results) -> Iterator[str]:
    """The paper's own figures, then the controls and the rivals."""
    for preset in ("paper", "default"):
        found = results.compared(results.ours(preset=preset), lambda row: row.less_paper)
        if found:
            name = "The paper preset" if preset == "paper" else "The default"
            yield f"- {name} less the paper's figures for PLGC: {every_place(found)}."
    yield from standard(results)


def few_labels(results: Results) -> Iterator[str]:
    """Ours against whole-graph training and against the controls, graph by graph."""
    for graph in dict.fromkeys(row.graph for row in results.rows):
        whole = [row for row in results.rows if (row.graph, row.method, row.way) == (graph, "whole", PUBLISHED)]
        ours = [row for row in results.ours() if row.graph == graph]
        parts = [
            f"{name} {not_above(found)}"
            for name, found in (
                ("`whole`", results.compared(whole, lambda row: row.ours_less, ("graph",))),
                ("best control", results.compared(ours, lambda row: row.less_control, ("graph",))),
            )
            if found
        ]
        if parts:
            yield f"- {title(graph)}: against {'. Against '.join(parts)}."


def wrong_labels(results: Results) -> Iterator[str]:
    """Whether files changed, how far methods fall, the controls, and the rivals from a noise of .3 on."""
    yield from _same_files(results)
    rates = sorted({row.level("noise") for row in results.rows if row.level("noise") is not None})
    if len(rates) > 1:
        low, high = rates[0], rates[-1]
        for graph in [name for name in MAIN if any(row.graph == name for row in results.rows)]:
            falls = _falls([row for row in results.rows if row.graph == graph], low, high)
            words = [f"`{row.name}` {with_interval(fell, unit(results.experiment, row.metric))}" for row, fell in falls]
            yield f"- {title(graph)}, from noise {low:g} to {high:g}, seed by seed: {', '.join(words)}."
    first = [row for row in results.rows if row.level("noise") in (None, rates[0] if rates else None)]
    yield from controls(results._replace(rows=first))
    yield from rival_lines(results)


def _falls(rows: Sequence[SummaryRow], low: float, high: float) -> list[tuple[SummaryRow, Difference]]:
    """What every method and way of scoring loses between two rates."""
    found = []
    for row in (row for row in rows if row.level("noise") == high):
        clean = [other for other in rows if _without(other, "noise") == _without(row, "noise")]
        same = {other.level("noise"): other.values for other in clean}
        fell = less_best(row.values, {"clean": same[low]}) if low in same else None
        if fell:
            found.append((row, fell))
    return found


def _without(row: SummaryRow, level: str) -> tuple[Any, ...]:
    rest = tuple(value for name, value in zip(PROTOCOL, row.protocol, strict=True) if name != level)
    return row.graph, row.nodes, row.preset, row.method, row.way, rest


def _same_files(results: Results) -> Iterator[str]:
    """Whether our files are the same at every rate, by their checksums."""
    files: dict[tuple[Any, ...], set[str]] = {}
    rates: dict[tuple[Any, ...], int] = {}
    for record in results.records:
        cell = record["cell"]
        if cell["method"] == OURS and record.get("artifact_sha256") and cell.get("noise") is not None:
            key = (
                cell["graph"],
                cell["nodes"],
                cell["preset"],
                cell["seed"],
                record.get("machine"),
                record.get("commit"),
            )
            files.setdefault(key, set()).add(record["artifact_sha256"])
            rates[key] = rates.get(key, 0) + 1
    graphs: dict[str, list[bool]] = {}
    for key, number in rates.items():
        if number > 1:
            graphs.setdefault(key[0], []).append(len(files[key]) == 1)
    if graphs:
        words = ", ".join(f"{title(graph)} {sum(same)} of {len(same)}" for graph, same in graphs.items())
        yield (
            "- Our files at all rates, from the same graph, seed, commit and kind of machine, are the same byte for "
            f"byte (how many): {words}."
        )


def kinds_of_gnn(results: Results) -> Iterator[str]:
    """The worst kind of GNN less the best, method by method."""
    for graph in dict.fromkeys(row.graph for row in results.rows):
        words = []
        for method in dict.fromkeys(row.method_name for row in results.rows if row.graph == graph):
            own = [r for r in results.rows if (r.graph, r.method_name, r.way) == (graph, method, PUBLISHED)]
            means = {row.level("backbone"): mean_std(row.values.values())[0] for row in own}
            low, high = (choose(own, key=lambda row: means[row.level("backbone")]) for choose in (min, max))
            less = less_best(low.values, {high.method: high.values})
            kinds = f"({low.level('backbone')} − {high.level('backbone')})"
            words.append(f"`{method}` {with_interval(less, unit(results.experiment, low.metric))} {kinds}")
        yield f"- {title(graph)}, the worst kind of GNN less the best: {', '.join(words)}."
    yield from rival_lines(results)


def sources(results: Results) -> Iterator[str]:
    """What the other sources add to the target's own, and the controls."""
    yield from _level_differences(results, "sources", "own", ("all", "others"))
    yield from controls(results)


def combined(results: Results) -> Iterator[str]:
    """One head per source against the paper's sum, and the controls."""
    yield from _level_differences(results, "combine", "sum", ("heads",))
    yield from controls(results._replace(rows=[r for r in results.rows if r.level("combine") in (None, "heads")]))


def _level_differences(results: Results, level: str, base: str, others: Sequence[str]) -> Iterator[str]:
    """Our rows at some values of a level, less those at another, all else equal."""
    for value in others:

        def less(row: SummaryRow) -> Difference | None:
            same = [r for r in results.ours() if r.level(level) == base and _without(r, level) == _without(row, level)]
            return less_best(row.values, {base: same[0].values}) if same else None

        found = results.compared([row for row in results.ours() if row.level(level) == value], less, (level,))
        if found:
            yield f"- `{value}` less `{base}`: {every_place(found)}."


def costs(results: Results) -> Iterator[str]:
    """Seconds of condensing, by method."""
    for graph in dict.fromkeys(row.graph for row in results.rows):
        seconds = {
            row.name: mean_std(row.also["condense_seconds"])[0]
            for row in results.rows
            if row.graph == graph and row.also.get("condense_seconds")
        }
        words = [f"`{name}` {value:.1f}" for name, value in sorted(seconds.items(), key=lambda item: item[1])]
        yield f"- {title(graph)}, seconds of condensing: {', '.join(words)}."


def membership(results: Results) -> Iterator[str]:
    """What the strongest attack tells of each release, and whether the records have all attacks."""
    for graph in dict.fromkeys(row.graph for row in results.rows):
        words = []
        for row in (row for row in results.rows if row.graph == graph and row.is_ours):
            form = unit(results.experiment, row.metric)
            less = f", less the default {with_interval(row.less_default, form)}" if row.less_default else ""
            words.append(f"`{row.level('release')}` {spread(row.values.values(), form)}{less}")
        yield f"- {title(graph)}, AUC of the strongest attack: {'; '.join(words)}."
    if not any("auc_inversion" in record["metrics"] for record in results.records):
        yield f"\n{EARLIER}"


def ablation(results: Results) -> Iterator[str]:
    """What each variant has more or less than the default, over graphs and numbers of labels."""
    yield "Each variant less the default; every cell that is not level is named:\n"
    yield from _variants(results)


def parts(results: Results) -> str:
    """The same of the variants that change one thing of the default."""
    return "\n".join(_variants(results, one_thing=True))


def _variants(results: Results, one_thing: bool = False) -> Iterator[str]:
    for variant in dict.fromkeys(row.level("variant") for row in results.rows if row.less_default):
        if one_thing and variant.startswith(("paper", "…")):
            continue
        own = [row for row in results.rows if row.level("variant") == variant and row.way == PUBLISHED]
        found = results.compared(own, lambda row: row.less_default, ("variant",))
        named = every_place([one for one in found if verdict(one.found) != "level"])
        yield f"- {variant}: {counts(found)} of {len(found)}{f' ({named})' if named else ''}."


SENTENCES: dict[str, Callable[[Results], Iterator[str]]] = {
    "every_graph": every_graph,
    "table3": beside_paper,
    "table4": beside_paper,
    "fig3": few_labels,
    "fig4": wrong_labels,
    "fig5": wrong_labels,
    "fig6": wrong_labels,
    "cross_arch": kinds_of_gnn,
    "citation_trio": sources,
    "twitch": sources,
    "partitions": combined,
    "cost": costs,
    "membership": membership,
    "ablation": ablation,
    "growing": histories,
    "merging": histories,
    "forgetting": forgetting,
}
