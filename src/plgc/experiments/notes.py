"""What is said below a table: the metric, seeds and label draws, machines, and what differences are taken to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.differences import verdict
from plgc.experiments.grid import cells
from plgc.experiments.numbers import unit, with_interval
from plgc.experiments.records import identity
from plgc.experiments.rows import ALONE, OURS, PARTS, PUBLISHED, WAYS, SummaryRow, level_name
from plgc.experiments.spec import Experiment
from plgc.experiments.within import within_notes
from plgc.graphs.catalog import title

INTERVAL = (
    "differences are paired by seed and label draw, with a 95 % interval (Student's t over the means of the seeds): "
    "above where it is above 0, below where it is below 0, level otherwise"
)


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
        yield (
            "paper: the paper's own figures, not measured here; − paper: ours less the paper's mean, which is taken as "
            "exact, and not paired"
        )
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
    """The ways of scoring, what differences are taken to, and how; and where ours is below."""
    rivals = {row.way for row in found if row.way != PUBLISHED and not row.name.endswith("learned part alone")}
    if any(row.way == ALONE and row.name.endswith("learned part alone") for row in found):
        yield "learned part alone: the same head on what the file gave, without X, ÂX and Â²X"
    if rivals:
        own = "has our pair head on its embedding" if experiment.task == "link" else "is as its authors evaluate it"
        alone = f" {WAYS[ALONE]}: our head on its embedding;" if ALONE in rivals else ""
        yield (
            f"ways of scoring: a method's own row {own};{alone} {WAYS[PARTS]}: our head with X, ÂX and Â²X beside it, "
            f"as {OURS} is shipped"
        )
    paired = False
    if any(row.less_control for row in found):
        paired = True
        controls = [name for name in CONTROLS if any(row.method == name and row.values for row in found)]
        yield f"− best control: less {_best_of(controls)} on the same labels, by their means"
    if any(row.less_all for row in found):
        others = [name for name in experiment.against if any(row.method == name and row.values for row in found)]
        yield f"− best of all: less the best of the controls{''.join(f', {name}' for name in others)}"
    if any(row.ours_less for row in found):
        paired = True
        yield _ours_less_note(experiment, found)
    if any(row.less_default for row in found):
        paired = True
        yield "− default: less the default, all else equal"
    if experiment.within:
        paired = True
        yield from within_notes(experiment, found)
    if paired:
        yield INTERVAL
    yield from _below(experiment, found)


def _ours_less_note(experiment: Experiment, found: Sequence[SummaryRow]) -> str:
    """What ours is compared with."""
    several = any(row.way != PUBLISHED and row.ours_less for row in found)
    sizes = {row.nodes for row in found if row.method == OURS and row.values}
    largest = f"; methods without a size: {OURS} at its largest" if len(sizes) > len({r.graph for r in found}) else ""
    if experiment.across:
        best = ", in whichever way of scoring is best for it" if several else ""
        return f"{OURS} − a method: {OURS} as shipped less the method{best}{largest}"
    alone = f"; the learned part alone less rows with {WAYS[ALONE]}" if several else ""
    return f"{OURS} − this: {OURS} as shipped, at the same size, less the row{alone}{largest}"


def _below(experiment: Experiment, found: Sequence[SummaryRow]) -> Iterable[str]:
    """The cells in which ours is below one of the references."""
    cells = [
        f"{title(row.graph)} ({experiment.across} {level_name(experiment.across, row.level(experiment.across))}): "
        f"{with_interval(row.less_all, unit(experiment, row.metric))} to {row.less_all.other}"
        for row in found
        if row.less_all is not None and experiment.across and row.is_ours and verdict(row.less_all) == "below"
    ]
    if cells:
        yield f"below the best of all: {'; '.join(cells)}"


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


def _best_of(names: Sequence[str]) -> str:
    """A single name, or the better or best of several."""
    if len(names) == 1:
        return names[0]
    best = "best" if len(names) > 2 else "better"
    return f"the {best} of {', '.join(names[:-1])} and {names[-1]}"
