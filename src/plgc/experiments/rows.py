"""The row of a summary: one method on one graph, at one size, under one protocol, scored in one way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plgc.experiments.differences import Difference, Draw, verdict
from plgc.experiments.levels import ALL
from plgc.experiments.numbers import NONE, mean_std
from plgc.rivals.methods import METHODS

# The fields of a cell that are the same for all methods.
PROTOCOL = ("backbone", "shots", "labels", "noise", "imbalance", "inductive")
PROTOCOL += ("parts", "partition", "sources", "combine", "release", "variant", "history", "year", "share")
ANY = ("noise", "partition", "sources", "combine", "release", "history")  # a row without a value holds for all of them
# Ways of scoring, by the prefix of the metric in a record: as its authors evaluate it (ours: as shipped), our head on
# its embedding alone, and our head on its embedding with X, ÂX and Â²X beside it (ours as shipped is that already).
PUBLISHED, ALONE, PARTS = "", "learned", "parts"
WAYS = {PUBLISHED: "as published", ALONE: "our head", PARTS: "our head + plain parts"}
OWN_WAYS = {PUBLISHED: "as shipped", ALONE: "learned part alone"}  # of our method
OURS = "plgc"


def way_name(way: str, task: str) -> str:
    """A way of scoring in words; nobody published one for links, where all methods have our pair head."""
    return WAYS[ALONE] if task == "link" and way == PUBLISHED else WAYS[way]


@dataclass
class SummaryRow:
    """One method on one graph at one size under one protocol, scored in one way, over its seeds and label draws.

    Attributes:
        graph, nodes, preset, method: as in a cell.
        protocol: the cell's values of :data:`PROTOCOL`.
        way: one of :data:`WAYS`.
        metric: what the values are of.
        task: as in a cell.
        values: the metric, by seed and label draw.
        errors: messages of the seeds that failed.
        paper: the paper's mean and standard deviation, where it has them; empty where it ran out of memory.
        less_control: the difference to the best of the controls that were run.
        less_all: the difference to the best of them and of the experiment's other references.
        less_default: the difference of a variant to the default.
        ours_less: what ours, scored alike, has more than this row.
        ours_less_best: what ours as shipped has more than this method in its best way; of rows as published.
        also: the experiment's other metrics and costs, by name.
        machines, commits, versions: what the values were made with.
    """

    graph: str
    nodes: int | None
    preset: str | None
    method: str
    protocol: tuple[Any, ...]
    way: str = PUBLISHED
    metric: str = ""
    task: str = "node"
    values: dict[Draw, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    paper: tuple[float, ...] | None = None
    less_control: Difference | None = None
    less_all: Difference | None = None
    less_default: Difference | None = None
    ours_less: Difference | None = None
    ours_less_best: Difference | None = None
    also: dict[str, list[float]] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    commits: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)

    @property
    def method_name(self) -> str:
        """The method as tables call it, whatever the way of scoring."""
        return self.method if self.preset in (None, "default") else f"{self.method} ({self.preset} preset)"

    @property
    def name(self) -> str:
        """The method as tables call it, with the way of scoring where it is not the usual one."""
        if self.way == PUBLISHED:
            return self.method_name
        own = self.way == ALONE and METHODS[self.method].presets
        return f"{self.method_name}, {'learned part alone' if own else WAYS[self.way]}"

    @property
    def is_ours(self) -> bool:
        """Whether it is of our method, in any preset."""
        return self.method == OURS

    def level(self, name: str) -> Any:
        """One value of the protocol."""
        return self.protocol[PROTOCOL.index(name)]

    @property
    def seeds(self) -> int:
        """How many have values."""
        return len({draw.seed for draw in self.values})

    @property
    def less_paper(self) -> Difference | None:
        """Ours less the paper's mean, which is taken as exact: the interval is that of our seeds."""
        if not self.values or not self.paper:
            return None
        mean = self.paper[0]
        return Difference("paper", {draw: value - mean for draw, value in self.values.items()})

    def line(self) -> dict[str, Any]:
        """Everything as one line of a file, with every value in full."""
        mean, std = mean_std(self.values.values()) if self.values else (None, None)
        paper_mean, paper_std = self.paper or (None, None)
        return {
            "graph": self.graph,
            "nodes": self.nodes,
            "preset": self.preset,
            "method": self.method,
            "way": way_name(self.way, self.task),
            **dict(zip(PROTOCOL, self.protocol, strict=True)),
            "metric": self.metric,
            "mean": mean,
            "std": std,
            "seeds": self.seeds,
            "values": " ".join(repr(float(value)) for _, value in sorted(self.values.items())),
            "paper_mean": paper_mean,
            "paper_std": paper_std,
            **_columns("less_paper", self.less_paper),
            "control": self.less_control.other if self.less_control else None,
            **_columns("less_control", self.less_control),
            "best": self.less_all.other if self.less_all else None,
            **_columns("less_best", self.less_all),
            **_columns("less_default", self.less_default),
            **_columns("plgc_less_this", self.ours_less),
            "machine": "; ".join(sorted(self.machines)),
            "commit": "; ".join(sorted(self.commits)),
            "error": "; ".join(dict.fromkeys(self.errors)),
        }


def _columns(name: str, found: Difference | None) -> dict[str, Any]:
    """A difference in a file: its mean, the ends of its interval, and the word that they give."""
    low, high = (found.interval if found else None) or (None, None)
    mean, word = (found.mean, verdict(found)) if found else (None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_verdict": word}


def level_name(level: str, value: Any) -> str:
    """A level's value in a heading or on an axis; no number of labels means all of them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ALL if level in ("shots", "labels") else "any" if level in ANY else NONE
    return value if isinstance(value, str) else f"{value:g}"
