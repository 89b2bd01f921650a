"""``plgc merge``: several condensed files become one, without any graph."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import shared_preprocessing, source_files
from plgc.cli.models import Files
from plgc.cli.options import Device, Json, Seed, check_device, examples, takes
from plgc.cli.output import facts, file_result, seconds, show, size, warn, working
from plgc.cli.written import Force, check_output

EXAMPLES = examples(
    "plgc merge east.safetensors west.safetensors -o one.safetensors",
    "plgc merge trio/ --nodes 100 -o one.safetensors",
)


@takes()
def merge(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write.")],
    nodes: Annotated[
        int | None, typer.Option(min=2, metavar="K", help="Rows of the result; by default those of all files.")
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stay within this much memory, such as 2GiB.")
    ] = None,
    force: Force = False,
    json: Json = False,
    **_given: Any,
) -> None:
    """Merge condensed files into one file of K rows. No graph is needed, and no label is read.

    Files that were condensed apart have unrelated outputs. Here all rows get one output, as wide as that of one file,
    so that the backbone rebuilt from the result is as small as that of one source. The result claims no more about its
    release than the weakest of the files, and lists them by checksum.
    """
    check_output(output, source_files(files), "a condensed graph", force)
    check_device(device)
    start = time.perf_counter()
    import plgc
    from plgc.sources import open_sources

    sources = open_sources(files)
    shared_preprocessing(sources)
    with working() as progress:
        merged = plgc.merge(
            [source.condensed for source in sources],
            nodes=nodes,
            seed=seed,
            device=device,
            memory=memory,
            progress=progress,
        )
    merged.save(output)
    made = file_result(output, "", merged, time.perf_counter() - start, None)
    unknown = ("graph", "ratio", "peak_memory_bytes", "explained_variance", "rounds", "batch_nodes")
    rows = [source.condensed.num_nodes for source in sources]
    result = {name: value for name, value in made.items() if name not in unknown}
    result |= {"sources": len(sources), "rows": sum(rows), "represents": int(merged.counts.sum())}
    warn(result["warnings"])
    asked = "" if merged.num_nodes == merged.nodes_requested else f" ({merged.nodes_requested} were asked for)"
    pairs = {
        "file": f"{output}, {size(result['bytes'])}",
        "merged": f"{len(sources)} file(s) of {', '.join(map(str, rows))} rows into {merged.num_nodes}{asked}",
        "represents": f"{result['represents']} nodes",
        "time": seconds(result["seconds"]),
    }
    show(result, facts(pairs), json)
