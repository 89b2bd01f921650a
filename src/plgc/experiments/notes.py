"""What is said below a table: the metric, seeds and label draws, machines, and what differences are taken to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.grid import cells
from plgc.experiments.numbers import unit, with_interval
from plgc.experiments.records import identity
from plgc.experiments.spec import Experiment
from plgc.experiments.summary import SummaryRow, level_name
from plgc.graphs.catalog import title
from plgc.rivals.methods import METHODS


def table_notes(
    experiment: Experiment,
    records: Sequence[Mapping[str, Any]],
    found: Sequence[SummaryRow],
    head: Sequence[str],
    failures: Mapping[str, int],
) -> Iterable[str]:
    """Every note of a table with this head; ``failures`` has the numbers of the footnotes, by message."""
    drawn = any(row.seeds < len(row.values) for row in found)
    over = "seeds and label draws" if drawn else "seeds"
    yield f"{_metric_note(experiment, found)}; mean ± standard deviation over {over} (n − 1)"
    counts = sorted({row.seeds for row in found if row.values})
    if counts:
        ragged = " (n= where there are fewer)" if experiment.across and len(counts) > 1 and not drawn else ""
        yield f"seeds: {counts[0]}" if len(counts) == 1 else f"seeds: {counts[0]} to {counts[-1]}{ragged}"
    if drawn:
        yield f"label draws of a seed: {_draws(found)}; n= where a method has fewer values than others"
    planned = {cell.identity() for cell in cells(experiment)}
    done = {identity(dict(record)) for record in records if "error" not in record}
    if planned - done:
        yield f"cells: {len(planned & done)} of {len(planned)} done"
    for name in ("machine", "commit"):
        each = sorted(set().union(*(getattr(row, f"{name}s") for row in found)))
        if each:
            yield f"{name}{'s' * (len(each) > 1)}: {'; '.join(each)}"
    versions = sorted(set().union(*(row.versions for row in found)))
    if len(versions) > 1:
        yield f"not all of one version of plgc: {'; '.join(versions)}"
    if "paper" in head:
        yield "paper: the paper's own figures, not measured here; − paper: ours less the paper's mean"
    yield from _comparison_notes(experiment, found, head)
    for message, mark in failures.items():
        yield f"[{mark}] {message}"


def _draws(found: Sequence[SummaryRow]) -> str:
    """The most label draws that a seed has, by the number of labels."""
    most: dict[int, int] = {}
    for row in found:
        shots, by_seed = row.level("shots"), Counter(draw.seed for draw in row.values)
        if shots is not None:
            most[shots] = max([most.get(shots, 0), *by_seed.values()])
    return ", ".join(f"{draws} with {shots} per class" for shots, draws in sorted(most.items()))


def _comparison_notes(experiment: Experiment, found: Sequence[SummaryRow], head: Sequence[str]) -> Iterable[str]:
    """What differences are taken to, and how; and where ours is behind."""
    if any(row.learned for row in found):
        yield "learned part: the same head on what the file gave, without X, ÂX and Â²X"
    controls = [name for name in CONTROLS if any(row.method == name and row.values for row in found)]
    best = "best" if len(controls) > 2 else "better"
    if experiment.against and any(row.less_control for row in found):
        others = [name for name in experiment.against if any(row.method == name and row.values for row in found)]
        yield (
            f"− best control: less {_one_of(controls, best)}; − best of all: less the best of these"
            f"{''.join(f', {name}' for name in others)}; the best is the one with the highest mean. Paired by seed and "
            "label draw, with a 95 % interval (Student's t over the means of the seeds)"
        )
        yield from _behind(experiment, found)
    elif "− best control" in head:
        yield f"− best control: seed by seed, less {_one_of(controls, best)} on the same labels"
    elif experiment.across and any(row.less_control for row in found):
        command = f"plgc experiment table {experiment.name} --format csv"
        rows = f"controls ({', '.join(controls)}) have rows of their own"
        yield f"{rows}; differences to the {best}, seed by seed: {command}"


def _behind(experiment: Experiment, found: Sequence[SummaryRow]) -> Iterable[str]:
    """The cells in which ours is below one of the references."""
    cells = [
        f"{title(row.graph)} ({experiment.across} {level_name(experiment.across, row.level(experiment.across))}): "
        f"{with_interval(row.less_all, unit(experiment, row.metric))} to {row.less_all.other}"
        for row in found
        if row.less_all is not None and experiment.across and is_ours(row.method) and row.less_all.mean < 0
    ]
    if cells:
        yield f"behind the best of all: {'; '.join(cells)}"


def is_ours(method: str) -> bool:
    """Whether it is our method, of all that may be in the records."""
    known = METHODS.get(method)
    return known is not None and known.presets and known.condenses


def _metric_note(experiment: Experiment, found: Sequence[SummaryRow]) -> str:
    """The metric with its unit; of graphs with different ones, which has which."""
    metrics: dict[str, list[str]] = {}
    for row in found:
        graphs = metrics.setdefault(row.metric or experiment.metric, [])
        if title(row.graph) not in graphs:
            graphs.append(title(row.graph))
    if len(metrics) < 2:
        return f"metric: {unit(experiment, next(iter(metrics), experiment.metric)).name}"
    main = experiment.metric if experiment.metric in metrics else next(iter(metrics))
    rest = [f"{unit(experiment, name).name} on {', '.join(graphs)}" for name, graphs in metrics.items() if name != main]
    return f"metric: {unit(experiment, main).name}, but {'; '.join(rest)}"


def _one_of(names: Sequence[str], best: str) -> str:
    """A single name, or the better or best of several."""
    return names[0] if len(names) == 1 else f"the {best} of {', '.join(names[:-1])} and {names[-1]}"
