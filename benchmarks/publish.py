"""Write docs/results.md with its figures, and the measured numbers of README.md and docs/*.md, from results/.

    python benchmarks/publish.py [--results results] [--docs docs] [--readme README.md] [--check]

Every experiment that ships has a section if ``results/NAME/records.jsonl`` exists. In the README, what is between the
two marks is made; in all pages, the blocks that ``publish_values`` describes. With ``--check`` nothing is written, and
the exit status is 1 if a page is not up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.canvas import save_svg
from plgc.experiments.figures import draw_figure, has_figure
from plgc.experiments.numbers import mean_std, unit, with_interval
from plgc.experiments.records import read_records, records_file
from plgc.experiments.rows import ALONE, PUBLISHED, SummaryRow
from plgc.experiments.spec import Experiment, list_experiments
from plgc.experiments.summary import summarise
from plgc.experiments.tables import make_table, to_markdown
from plgc.graphs.catalog import title
from plgc.runtime.errors import SettingError
from plgc.runtime.files import write_atomically
from publish_batches import batch_lines
from publish_overview import overview
from publish_streamed import streamed_lines
from publish_summary import parts, short
from publish_values import filled
from publish_words import Results

PAGE, FIGURES = "results.md", "figures"
MARKS = ("<!-- results -->", "<!-- /results -->")  # what stands between them in the README is made here
HEADLINE = ("random_encoder", "propagated_features", "raw_features", "plain_parts", "whole", "whole_mlp")
# Not on the machines that made the records; said here, so that the page does not depend on where it is written.
UNAVAILABLE = ("ogbn-arxiv", "flickr", "reddit")
# What has changed since a version, of all that figures depend on, and the methods that it changes as published.
OURS = ("plgc", "ssl")
SINCE = {
    "0.1.0": ((*OURS, "ctgc", *CONTROLS), "files had one channel, and the head did not weigh its parts"),
    "0.2.0": (OURS, "encoders were chosen by comparing twins, and ℓ_swap was part of the default"),
}
INTRODUCTION = """# Results

This page is made by `benchmarks/publish.py` from the records in `results/`, one line per run; change those, not this.

How to read the tables:

- A figure is the mean ± the standard deviation over seeds. A seed drives everything: the condensation, the rebuilt
  model, the draw of labels and, where a graph has no split of its own, the split. With several label draws a seed, a
  figure is over all of them.
- `plgc` is the default preset, `plgc (paper preset)` the method by the letter of the paper.
- `propagated_features` (Â²X), `random_encoder` (a GNN that was never trained), `raw_features` (X and no edges) and
  `plain_parts` (X, ÂX and Â²X) are controls: the same head on the same labels, without any condensation. Figures of
  version 0.1.0 have the first two. **− best control** is the difference to the best of those that were run: what a
  method adds to them. A method that is level with it has not shown that it adds anything.
- A method may have several rows: as its authors evaluate it; with **our head** on its embedding; with **our head +
  plain parts**, which are X, ÂX and Â²X, beside its embedding. **learned part alone** is our head on what was rebuilt
  from our file, without them. Figures of version 0.1.0 have the first row alone.
- Every difference is paired, by seed and label draw, and has its 95 % interval in brackets (Student's t over the means
  of the seeds). A sentence says *above*, *level* or *below* by that interval and by nothing else.
- **paper** holds the paper's own figures, copied and not measured here; rows with nothing else are methods that we have
  not run. **− paper** is our mean less the paper's, which is taken as exact.
- Graphs and runs that are missing say so; nothing is filled in.
- Machines and commits are below each table; a `+` after a commit means that its source had been changed.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    found = {experiment.name: read_results(experiment, chosen.results) for experiment in list_experiments()}
    drawn = [results for results in found.values() if has_figure(results.experiment, results.records)]
    figures = [chosen.docs / FIGURES / f"{results.experiment.name}.svg" for results in drawn]
    try:
        texts = {"batches": batch_lines(chosen.results / "batches.jsonl")}
        texts |= {"streamed": streamed_lines(chosen.results / "streamed.jsonl")}
        texts |= {name: parts(found[name]) for name in ("ablation",) if name in found}
        pages = made_pages(found, texts, chosen.docs, chosen.readme)
    except SettingError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.check:
        return check(pages, figures)
    for results, path in zip(drawn, figures, strict=True):
        save_svg(draw_figure(results.experiment, results.records), path)
    for path, text in pages.items():
        write_atomically(path, text.encode())
    return 0


def read_results(experiment: Experiment, folder: Path) -> Results:
    records = read_records([records_file(folder / experiment.name, experiment.name)])
    return Results(experiment, records, [row for row in summarise(experiment, records) if row.values])


def made_pages(found: Mapping[str, Results], texts: Mapping[str, str], docs: Path, readme: Path) -> dict[Path, str]:
    """The text of every page that holds measured numbers, as it should be."""
    pages = {docs / PAGE: "\n".join(sections(list(found.values())))}
    for path in (readme, *sorted(docs.glob("*.md"))):
        if path.is_file() and path not in pages:
            try:
                page = filled(path.read_text(encoding="utf-8"), found, texts)
            except SettingError as error:
                raise SettingError(f"{path}: {error}") from error
            pages[path] = with_headline(page, found) if path == readme else page
    return pages


def sections(found: Sequence[Results]) -> Iterator[str]:
    """The results page, part by part."""
    yield INTRODUCTION
    yield overview([results for results in found if results.rows])
    yield from (section(results) for results in found if results.records)
    missing = [results.experiment for results in found if not results.records]
    if missing:
        yield "## Not yet run\n"
        for experiment in missing:
            yield f"- `{experiment.name}`: {experiment.title}" + (
                f"; {experiment.pending}" if experiment.pending else ""
            )
        yield ""


def section(results: Results) -> str:
    experiment, records, _ = results
    parts = [f"## {experiment.name}: {experiment.title}", older(records), experiment.about.strip()]
    parts.append(short(results).strip())
    if has_figure(experiment, records):
        parts.append(f"![{experiment.title}]({FIGURES}/{experiment.name}.svg)")
    parts.append(to_markdown(make_table(experiment, records, unavailable=UNAVAILABLE)).strip())
    parts.append(f"To repeat it:\n\n```\nplgc experiment run {experiment.name} --out results/{experiment.name}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def is_stale(record: Mapping[str, Any]) -> bool:
    """Whether its figures would be others with this version."""
    changed, _ = SINCE.get(str(record.get("version")), ((), ""))
    return record["cell"]["method"] in changed


def older(records: list[dict[str, Any]]) -> str:
    """Which methods' figures are of an earlier version, where it has changed them."""
    found, stale = [], [record for record in records if is_stale(record)]
    for version, (changed, what) in SINCE.items():
        methods = {record["cell"]["method"] for record in stale if record.get("version") == version}
        if names := [f"`{name}`" for name in changed if name in methods]:
            found.append(f"**Figures of plgc {version}** ({', '.join(names)}): then {what}.")
    return " ".join(found)


def with_headline(readme: str, found: Mapping[str, Results]) -> str:
    """The README with its table made anew, between the two marks; unchanged where it has no marks."""
    before, start, rest = readme.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    return before + start + "\n" + headline(found["every_graph"]) + end + after if start and end else readme


def headline(results: Results) -> str:
    """Ours on every graph beside the controls and two networks trained end to end, and what the table says."""
    heading = ["labels", "graph", "nodes", "plgc", "learned part alone", *HEADLINE, "plgc − best control"]
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    for shots, labels in ((None, "all"), (3, "3 per class")):
        own = [row for row in results.rows if row.level("shots") == shots]
        others = {(row.graph, row.method): row for row in own if row.nodes is None and row.way == PUBLISHED}
        alone = {row.graph: row for row in own if row.is_ours and row.way == ALONE}
        for ours in (row for row in own if row.is_ours and row.way == PUBLISHED):
            form = unit(results.experiment, ours.metric)
            beside = [ours, alone.get(ours.graph), *(others.get((ours.graph, method)) for method in HEADLINE)]
            cells = [f"{form.factor * _mean(row):.{form.digits}f}" if row else "–" for row in beside]
            mark = " (AUROC × 100)" if form.factor > 1 else ""
            names = [labels, title(ours.graph) + mark, str(ours.nodes)]
            lines.append("| " + " | ".join([*names, *cells, with_interval(ours.less_control, form)]) + " |")
    return "\n".join([*lines, "", *([note, ""] if (note := older(results.records)) else []), short(results), ""])


def _mean(row: SummaryRow) -> float:
    return mean_std(row.values.values())[0]


def check(pages: dict[Path, str], figures: list[Path]) -> int:
    """1 if a page differs from what would be written, or a figure is missing."""
    wrong = [f"{figure} is missing" for figure in figures if not figure.is_file()]
    for path, text in pages.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"{path} is not what the records say")
    for message in wrong:
        print(f"{message}: run python benchmarks/publish.py", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
