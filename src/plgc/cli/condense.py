"""``plgc condense`` makes the small file; of several graphs, or of the parts of one, a folder of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.inputs import MANIFEST, GraphOptions
from plgc.cli.options import (
    GRAPH_HELP,
    Condenser,
    Device,
    Dtype,
    Edges,
    Json,
    Precision,
    Preset,
    Seed,
    Split,
    check_device,
    chosen,
    exactly_one,
    examples,
    takes,
    values_of,
)
from plgc.cli.output import (
    derived_text,
    detail,
    facts,
    file_result,
    notice,
    seconds,
    seen_text,
    show,
    size,
    warn,
    working,
)
from plgc.cli.sources import PartOptions, PlacementOptions, condense_several
from plgc.cli.written import Force, check_output
from plgc.rivals.methods import METHODS
from plgc.runtime.files import check_writable

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs import TrainingLabels
    from plgc.runtime.checkpoint import CheckpointFolder
    from plgc.runtime.memory import Usage

SOURCES_MIN_CLUSTER = 5  # as in plgc.sources, which --help must not wait for
FLOAT_BYTES = 4  # of a synthetic feature
EXAMPLES = examples(
    "plgc condense cora --nodes 70 -o cora.safetensors",
    "plgc condense edges.csv --nodes-table nodes.csv --ratio 0.02 -o mine.safetensors",
    "plgc condense edges.csv --features fastrp:128 --ratio 0.02 -o mine.safetensors",
    "plgc condense cora --parts 3 --partition metis --halo 1 --nodes 70 -o parts/",
)


@dataclass(frozen=True)
class ViewOptions:
    """What the condensation sees of the graph."""

    edges: Annotated[
        Edges, typer.Option(help="For link prediction: 'train' hides validation and test edges (1:1:2).")
    ] = Edges.all
    edge_seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which edge split, with --edges train.")] = 0
    inductive: Annotated[
        bool, typer.Option("--inductive", help="See the training nodes alone; --ratio is of them.")
    ] = False
    split: Split = 0

    def __post_init__(self) -> None:
        if self.inductive and self.edges == Edges.train:
            raise typer.BadParameter("give --inductive or --edges train, not both: unseen nodes have unseen edges")
        if self.edge_seed and self.edges == Edges.all:
            raise typer.BadParameter("--edge-seed chooses an edge split: give --edges train with it")

    @property
    def hides(self) -> str | None:
        """The option that hides a part of the graph; None where all of it is seen."""
        return "--inductive" if self.inductive else "--edges train" if self.edges == Edges.train else None

    def of(self, data: Data) -> Data:
        """The part of a graph that is seen."""
        from plgc.graphs import training_edges, training_subgraph

        if self.inductive:
            return training_subgraph(data)
        return training_edges(data, self.edge_seed) if self.edges == Edges.train else data


class ReleaseOptions:
    """What may leave the owner of a graph: :class:`plgc.method.release.Release`."""

    min_cluster: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="M",
            help="Fewest original nodes per synthetic one; hides nobody. Default 1, of several sources 5.",
        ),
    ] = None
    max_share: Annotated[
        float | None,
        typer.Option(metavar="P", help="Publish no value that one node gives more than this share of; costs accuracy."),
    ] = None
    private: Annotated[
        bool | None,
        typer.Option(
            "--private/--no-private",
            help="Publish sums over many nodes, with noise: hides members as far as was measured, costs accuracy. "
            "Default for several graphs, not for --parts.",
        ),
    ] = None
    clip: Annotated[float | None, typer.Option(metavar="C", help="Shorten rows to this norm.")] = None
    noise: Annotated[
        float | None, typer.Option(metavar="SIGMA", help="Gaussian noise on all that is published, in units of --clip.")
    ] = None
    fingerprint: Annotated[
        bool | None,
        typer.Option(
            "--fingerprint/--no-fingerprint", help="A checksum of the graph in the file; of several sources none."
        ),
    ] = None
    dtype: Annotated[
        Dtype | None, typer.Option(help="Digits of X' and of the pseudo-labels in the file; by default float8.")
    ] = None
    density: Annotated[
        float | None,
        typer.Option(metavar="D", help="Share of X' to keep, above 0 and at most 1. Default: 99.99 % of its squares."),
    ] = None


class ComputeOptions:
    """What is computed with: :class:`plgc.runtime.options.Compute`."""

    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stay within this, as in 4GiB: large graphs are trained on in mini-batches."),
    ] = None
    precision: Annotated[
        Precision | None, typer.Option(help="Of the encoders' products; bfloat16 needs a GPU and moves half the bytes.")
    ] = None
    device: Device = "cpu"
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads; recorded in the file.")] = None


@takes(GraphOptions, ViewOptions, ReleaseOptions, PartOptions, PlacementOptions, ComputeOptions)
def condense(
    graphs: Annotated[
        list[str], typer.Argument(metavar="GRAPH...", help=f"{GRAPH_HELP} Several: one source each, into a folder.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write; a folder for several sources.")
    ],
    ratio: Annotated[
        float | None, typer.Option(metavar="R", help="Keep this share of each source's nodes: 0 < R <= 1.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="K", help="Keep this many nodes of each graph, of all --parts together.")
    ] = None,
    seed: Seed = 0,
    preset: Annotated[Preset, typer.Option(help="The best settings we know, or the paper's.")] = Preset.default,
    method: Annotated[Condenser, typer.Option(help="How to condense; all but plgc and ctgc read training labels.")] = (
        Condenser.plgc
    ),
    preprocess: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Read the table as 'plgc data describe' has written: one description for several owners.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for checkpoints; default beside FILE, after a minute.", file_okay=False
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Condense a graph into a small file, by default without labels.

    The file records what it was made from: all nodes and edges, training edges (--edges train), or training nodes
    (--inductive). 'plgc evaluate' refuses to score it on nodes or edges that it should not have seen. Whoever holds a
    default file can tell which nodes were in the graph: 'plgc audit' measures what a file tells.

    Several graphs, or one with --parts, become a folder with one file per source and a manifest. Running the same again
    does only what is missing; one more graph and an existing folder adds it.
    """
    exactly_one(ratio=ratio, nodes=nodes)
    view = ViewOptions(**values_of(ViewOptions, given))
    named = GraphOptions(graphs[0], **values_of(GraphOptions, given))
    if named.features is not None and view.hides:
        raise typer.BadParameter(f"--features derives from all edges, {view.hides} hides some: give one of the two")
    release, compute = chosen(ReleaseOptions, given), chosen(ComputeOptions, given)
    ours = [name for name in (*release, *compute) if name not in ("device", "threads")]
    record = METHODS[str(method)]
    if ours and not record.presets:
        raise typer.BadParameter(f"--{ours[0].replace('_', '-')} is for plgc: {method!s} does not know it")
    parts, placement = chosen(PartOptions, given), chosen(PlacementOptions, given)
    several = len(graphs) > 1 or "parts" in parts or (output / MANIFEST).is_file()
    guarded = several or release.get("private")
    named = _described(named, preprocess, release.get("min_cluster") or (SOURCES_MIN_CLUSTER if guarded else 1))
    if several:
        options = {"ratio": ratio, "nodes": nodes, "seed": seed, "preset": str(preset)}
        options |= release | compute | placement
        show(*condense_several(graphs, output, named, view, parts, options, str(method), checkpoint, force), json)
        return
    if parts or placement:
        option = next(iter(parts | placement)).replace("_", "-")
        raise typer.BadParameter(f"--{option} is for several graphs, for --parts of one, or for a folder of sources")
    check_output(output, named.files(), "a condensed graph", force)
    check_device(given["device"])
    if checkpoint is not None:
        check_writable(checkpoint / "checkpoint")
    from plgc.graphs.bare import strip_labels
    from plgc.method.release import Release
    from plgc.runtime.memory import watched_memory
    from plgc.runtime.options import Compute

    arguments: dict[str, Any] = {"seed": seed, "compute": Compute(**compute)}
    if record.presets:
        arguments |= {"preset": str(preset), "release": Release(**release)}
    start = time.perf_counter()
    with watched_memory() as usage:
        graph = view.of(named.load(view.split, seed))
        arguments["nodes"] = _count(graph, output, ratio, nodes)
        if record.supervised:
            arguments["labels"] = _labels(str(method), graph)
        began = time.perf_counter()
        with checkpoints(checkpoint, output) as folder:
            with working() as progress:
                progress("condensing", 0, 1)
                shown = graph if record.supervised else strip_labels(graph)
                condensed = record.condense(shown, progress=progress, checkpoint=folder, **arguments)
            condensed.save(output)
    detail(f"condensed in {seconds(time.perf_counter() - began)} on {given['device']}, {condensed.threads} thread(s)")
    show_made(output, graph, condensed, time.perf_counter() - start, json, usage=usage)


def _described(named: GraphOptions, preprocess: Path | None, rare: int) -> GraphOptions:
    """The graph, with its table read by a description where one is given; else words that are rare have no column."""
    if preprocess is None:
        return replace(named, rare=rare)
    from plgc.graphs.preprocessing import read_preprocessing

    return named.as_in(read_preprocessing(preprocess))


def _count(graph: Data, output: Path, ratio: float | None, nodes: int | None) -> int:
    """K, for which there must be room at the output."""
    from plgc.method.condense import resolve_count

    count = resolve_count(graph.num_nodes or 0, ratio, nodes)
    check_writable(output, FLOAT_BYTES * count * graph.num_features)
    return count


@contextmanager
def checkpoints(folder: Path | None, output: Path) -> Iterator[CheckpointFolder]:
    """The folder of checkpoints, removed once the result is written; a user who interrupts is told how to resume."""
    from plgc.runtime.checkpoint import checkpoint_folder

    kept = checkpoint_folder(folder, output)
    try:
        yield kept
    except KeyboardInterrupt:
        if kept.holds():
            typer.echo(f"what is done so far is kept in {kept.folder}: the same command resumes from there", err=True)
        raise
    kept.clear()


def _labels(method: str, graph: Data) -> TrainingLabels:
    """The training labels for a method that reads them, with a notice."""
    from plgc.graphs import training_labels

    labels = training_labels(graph)
    notice(f"{method} reads the graph's {labels.train.numel()} training labels")
    return labels


def show_made(
    output: Path,
    graph: Data,
    condensed: CondensedGraph,
    spent: float,
    json: bool,
    more: Mapping[str, Any] | None = None,
    usage: Usage | None = None,
) -> None:
    """Print what was made; ``more`` is added to the JSON object, and ``usage`` where memory was watched."""
    from plgc.graphs.attributes import attribute
    from plgc.runtime.provenance import peak_memory

    detail(f"settings: {condensed.settings}")
    detail(f"chosen from the graph: {condensed.chosen}")
    result = file_result(output, graph.name, condensed, spent, peak_memory() if usage is None else usage.memory)
    result |= {} if usage is None else {"peak_mapped_bytes": usage.mapped}
    result |= {"doubts": list(attribute(graph, "doubts", ())), **(more or {})}
    source = condensed.source
    known = "about " if "edges" not in source else ""
    edges = f"{source['edges'] // 2} edges, " if "edges" in source else ""
    pairs = {
        "graph": f"{result['graph']}{seen_text(condensed.seen)}: {known}{source['nodes']} nodes, "
        f"{edges}{source['features']} features",
        "condensed to": f"{result['nodes']} nodes ({100 * result['ratio']:.2g} %), "
        + ("no edges" if condensed.edge_index is None else f"{condensed.edge_index.shape[1] // 2} edges"),
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "cost": f"{seconds(result['seconds'])}, peak memory {size(result['peak_memory_bytes'])}",
    }
    if result["batch_nodes"] is not None:
        pairs["trained"] = f"in batches of {result['batch_nodes']} nodes, since memory is limited"
    if condensed.seen.derived is not None:
        pairs["features"] = derived_text(condensed.seen.derived)
    if condensed.seen.preprocessing is not None:
        pairs["table"] = condensed.seen.preprocessing.summary()
    if result["explained_variance"] is not None:
        share = f"{100 * result['explained_variance']:.0f} % of the embeddings' variance"
        pairs["pseudo-labels"] = f"explain {share} after {result['rounds']} round(s)"
    if (kept := condensed.chosen.get("kept")) is not None:
        pairs["moved"] = f"an old pseudo-label has a cosine of {kept:.2f} to its nearest new one, on average"
    warn(result["warnings"])
    show(result, facts(pairs), json)
