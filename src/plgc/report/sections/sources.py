"""The section "What is in the files?": several condensed graphs side by side, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.report.charts import NumberTable
from plgc.report.facts.files import FileFacts
from plgc.report.formatting import NONE, number, percent, plain, size, whole

HEAD = ["source", "method", "nodes", "bytes", "original nodes", "ratio", "fewest", "median", "most", "effective"]
HEAD += ["explained", "reproduced", "closest pair", "seed"]


def sources_section(files: Sequence[FileFacts], partition: Mapping[str, Any] | None) -> dict[str, Any]:
    """The table and, for the parts of one graph, how it was cut."""
    cut = None
    if partition is not None:
        cut = f"One graph in {partition['parts']} {partition['how']} parts"
        if "edges" in partition:  # left out for clipped or noisy files
            cut += f": {percent(partition['edges_cut'] / max(1, partition['edges']), 3)} of its edges were cut"
    return {"table": NumberTable("The sources side by side", HEAD, [_row(file) for file in files], 2), "cut": cut}


def _row(file: FileFacts) -> list[str]:
    condensed, counts = file.condensed, file.counts
    original = condensed.source.get("nodes")
    return [
        file.name,
        condensed.method,
        whole(condensed.num_nodes),
        size(file.bytes),
        NONE if original is None else whole(original),
        NONE if not original else percent(condensed.num_nodes / original),
        whole(min(counts.sizes)),
        number(counts.median),
        whole(max(counts.sizes)),
        number(counts.effective),
        *(NONE if share is None else percent(share, 3) for share in (file.explained, file.reconstructed)),
        number(file.gap),
        plain(condensed.seed),
    ]
