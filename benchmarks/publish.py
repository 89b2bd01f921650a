"""Write docs/results.md with its figures, and the README's table, from the records in results/.

    python benchmarks/publish.py [--results results] [--docs docs] [--readme README.md] [--check]

Every experiment that ships has a section if ``results/NAME/records.jsonl`` exists. ``docs/results_summary.md``, written
by hand, goes on top. With ``--check`` nothing is written, and the exit status is 1 if a page is not up to date.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from plgc.experiments.curves import draw_curves, save_svg
from plgc.experiments.numbers import mean_std
from plgc.experiments.records import read_records, records_file
from plgc.experiments.spec import Experiment, list_experiments
from plgc.experiments.summary import summarise
from plgc.experiments.tables import make_table, to_markdown
from plgc.graphs.catalog import title
from plgc.runtime.files import write_atomically

PAGE, SUMMARY, FIGURES = "results.md", "results_summary.md", "figures"
MARKS = ("<!-- results -->", "<!-- /results -->")  # what stands between them in the README is made here
HEADLINE = ("random_encoder", "propagated_features", "raw_features", "plain_parts", "whole", "whole_mlp")
# Not on the machines that made the records; said here, so that the page does not depend on where it is written.
UNAVAILABLE = ("ogbn-arxiv", "flickr", "reddit")
# What has changed since a version, of all that figures depend on.
SINCE = {"0.1.0": "files had one channel, and the head did not weigh its parts"}
INTRODUCTION = """# Results

This page is made by `benchmarks/publish.py` from the records in `results/`, one line per run; change those, not this.

How to read the tables:

- A figure is the mean ± the standard deviation over seeds. A seed drives everything: the condensation, the rebuilt
  model, the draw of labels and, where a graph has no split of its own, the split.
- `plgc` is the default preset, `plgc (paper preset)` the method by the letter of the paper.
- `propagated_features` (Â²X), `random_encoder` (a GNN that was never trained), `raw_features` (X and no edges) and
  `plain_parts` (X, ÂX and Â²X) are controls: the same head on the same labels, without any condensation. Figures of
  version 0.1.0 have the first two. **− best control** is the difference to the best of those that were run, taken seed
  by seed: what a method adds to them. A method whose difference is within its spread has not shown that it adds
  anything.
- **learned part** is the same head on what was rebuilt from the file, without the features themselves beside it.
- With several label draws a seed, a figure is over all of them. A difference with brackets has its 95 % interval: pairs
  of the same seed and draw, Student's t over the means of the seeds.
- **paper** holds the paper's own figures, copied and not measured here; rows with nothing else are methods that we have
  not run. **− paper** is our mean less the paper's.
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
    found = [(e, read_records([records_file(chosen.results / e.name, e.name)])) for e in list_experiments()]
    page = "\n".join(sections(found, chosen.docs / SUMMARY))
    drawn = [(experiment, records) for experiment, records in found if has_curves(experiment, records)]
    figures = [chosen.docs / FIGURES / f"{experiment.name}.svg" for experiment, _ in drawn]
    pages = {chosen.docs / PAGE: page}
    if chosen.readme.is_file():
        pages[chosen.readme] = with_headline(chosen.readme.read_text(encoding="utf-8"), found)
    if chosen.check:
        return check(pages, figures)
    for (experiment, records), path in zip(drawn, figures, strict=True):
        save_svg(draw_curves(experiment, records), path)
    for path, text in pages.items():
        write_atomically(path, text.encode())
    return 0


def sections(found: Sequence[tuple[Experiment, list[dict[str, Any]]]], summary: Path) -> Iterator[str]:
    """The page, part by part."""
    yield INTRODUCTION
    if summary.is_file():
        yield summary.read_text(encoding="utf-8")
    for experiment, records in found:
        if records:
            yield section(experiment, records)
    missing = [experiment for experiment, records in found if not records]
    if missing:
        yield "## Not yet run\n"
        for experiment in missing:
            yield f"- `{experiment.name}`: {experiment.title}" + (
                f"; {experiment.pending}" if experiment.pending else ""
            )
        yield ""


def section(experiment: Experiment, records: list[dict[str, Any]]) -> str:
    parts = [f"## {experiment.name}: {experiment.title}", older(records), experiment.about.strip()]
    parts.append(to_markdown(make_table(experiment, records, unavailable=UNAVAILABLE)).strip())
    if has_curves(experiment, records):
        parts.append(f"![{experiment.title}]({FIGURES}/{experiment.name}.svg)")
    parts.append(f"To repeat it:\n\n```\nplgc experiment run {experiment.name} --out results/{experiment.name}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def older(records: list[dict[str, Any]]) -> str:
    """Which version figures are of, where it is not this one."""
    versions = sorted({str(record.get("version")) for record in records} & set(SINCE))
    return " ".join(f"**Figures of plgc {version}**: then {SINCE[version]}." for version in versions)


def has_curves(experiment: Experiment, records: list[dict[str, Any]]) -> bool:
    """Whether there is something to draw along a level."""
    return experiment.across is not None and any("error" not in record for record in records)


def with_headline(readme: str, found: Sequence[tuple[Experiment, list[dict[str, Any]]]]) -> str:
    """The README with its table made anew, between the two marks; unchanged where it has no marks."""
    before, start, rest = readme.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    return before + start + "\n" + headline(found) + end + after if start and end else readme


def headline(found: Sequence[tuple[Experiment, list[dict[str, Any]]]]) -> str:
    """Ours on every graph beside the controls and two networks trained end to end, with all labels and with three."""
    columns = ["plgc", "learned part", *HEADLINE, "plgc − best control"]
    heading = ["labels", "graph", "nodes", *columns]
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    [(experiment, records)] = [one for one in found if one[0].name == "every_graph"]
    rows = summarise(experiment, records)
    for shots, labels in ((None, "all"), (3, "3 per class")):
        own = [row for row in rows if row.level("shots") == shots]
        unsized = {(row.graph, row.method): row for row in own if row.nodes is None}
        for ours in own:
            if ours.method != "plgc" or not ours.values:
                continue
            scale = 100 if ours.metric == "auroc" else 1
            others = [unsized.get((ours.graph, method)) for method in HEADLINE]
            scores = [ours.values, ours.learned, *(row.values if row else {} for row in others)]
            cells = [f"{scale * mean_std(values.values())[0]:.1f}" if values else "–" for values in scores]
            less = ours.less_control
            assert less is not None
            low, high = less.interval or (math.nan, math.nan)
            cells.append(f"{scale * less.mean:+.1f} [{scale * low:+.1f}, {scale * high:+.1f}]")
            mark = " (AUROC × 100)" if scale == 100 else ""
            lines.append("| " + " | ".join([labels, title(ours.graph) + mark, str(ours.nodes), *cells]) + " |")
    return "\n".join(lines) + "\n"


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
