"""``plgc condense`` makes the small file; of several graphs, or of the parts of one, a folder of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.graph import Named
from plgc.cli.inputs import check_not_input
from plgc.cli.messages import Quiet, Verbose, detail, notice, working
from plgc.cli.options import (
    GRAPH_HELP,
    Column,
    Condenser,
    Device,
    Edges,
    Engine,
    Features,
    FeaturesSeed,
    Json,
    NodesTable,
    Partition,
    Precision,
    Preset,
    Seed,
    Split,
    Standardize,
    check_device,
    exactly_one,
    examples,
)
from plgc.cli.output import derived_text, facts, seconds, show, size, view_text
from plgc.cli.request import Guard, Request, Several, View, report
from plgc.cli.sources import check_alone, condense_several
from plgc.runtime.files import check_writable
from plgc.runtime.progress import Progress

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs import TrainingLabels
    from plgc.runtime.checkpoint import CheckpointFolder

VALUE = 4  # bytes of a synthetic feature
EXAMPLES = examples(
    "plgc condense cora --nodes 70 -o cora.safetensors",
    "plgc condense edges.csv --nodes-table nodes.csv --ratio 0.02 -o mine.safetensors",
    "plgc condense edges.csv --features fastrp:128 --ratio 0.02 -o mine.safetensors",
    "plgc condense cora --parts 3 --partition metis --halo 1 --nodes 70 -o parts/",
)
MANIFEST = "manifest.json"  # as in plgc.sources, which --help must not wait for


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
    nodes_table: NodesTable = None,
    column: Column = None,
    standardize: Standardize = False,
    features: Features = None,
    features_seed: FeaturesSeed = None,
    seed: Seed = 0,
    preset: Annotated[Preset, typer.Option(help="The best settings we know, or the paper's.")] = Preset.default,
    method: Annotated[Condenser, typer.Option(help="How to condense; all but plgc and ctgc read training labels.")] = (
        Condenser.plgc
    ),
    edges: Annotated[
        Edges, typer.Option(help="For link prediction: 'train' hides validation and test edges (1:1:2).")
    ] = Edges.all,
    edge_seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which edge split, with --edges train.")] = 0,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="See the training nodes alone; --ratio is of them.")
    ] = False,
    split: Split = 0,
    min_cluster: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="M",
            help="Fewest nodes a synthetic one stands for, which hides nobody; of several 5, else 1.",
        ),
    ] = None,
    max_share: Annotated[
        float | None,
        typer.Option(metavar="P", help="Publish no value that one node gives more than this share of; costs accuracy."),
    ] = None,
    clip: Annotated[float | None, typer.Option(metavar="C", help="Shorten rows to this norm.")] = None,
    noise: Annotated[
        float | None, typer.Option(metavar="SIGMA", help="Gaussian noise on all that is published, in units of --clip.")
    ] = None,
    fingerprint: Annotated[
        bool | None,
        typer.Option(
            "--fingerprint/--no-fingerprint", help="A checksum of the graph in the file; of several sources none."
        ),
    ] = None,
    parts: Annotated[int | None, typer.Option(min=2, metavar="N", help="Cut one graph into N sources.")] = None,
    partition: Annotated[
        Partition | None, typer.Option(help="How to cut; by default random. 'skewed' reads labels.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(metavar="A", help="With skewed: smaller is more uneven.")] = None,
    halo: Annotated[
        int | None, typer.Option(min=0, metavar="HOPS", help="Parts see their neighbours this many hops around.")
    ] = None,
    names: Annotated[str | None, typer.Option(metavar="A,B", help="Names of the sources, not the graphs' own.")] = None,
    shared_seed: Annotated[
        bool, typer.Option("--shared-seed", help="All sources start from --seed, not each from its own.")
    ] = False,
    engine: Annotated[Engine | None, typer.Option(help="Where sources are condensed; by default serial.")] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A running Ray cluster, or 'auto'; else one is started.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Sources side by side.")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads of each source; default 1.")] = None,
    gpus: Annotated[float | None, typer.Option(min=0, metavar="N", help="GPUs of each source, with ray.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep where the run stands here; by default beside FILE, after a minute.",
            file_okay=False,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stay within this, as in 4GiB: large graphs are trained on in batches."),
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(help="Of the encoders' products; bfloat16 needs a GPU and moves half the bytes.")
    ] = None,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads; recorded in the file.")] = None,
    json: Json = False,
    _verbose: Verbose = False,
    _quiet: Quiet = False,
) -> None:
    """Condense a graph into a small file, by default without labels.

    The file remembers what it was made from: all nodes and edges, training edges (--edges train), or training nodes
    (--inductive). 'plgc evaluate' refuses what it has seen too much for. Whoever holds a default file can tell which
    nodes were in the graph: 'plgc inspect' says what is known of a file.

    Several graphs, or one with --parts, become a folder with one file per source and a manifest. Running the same again
    does only what is missing; one more graph and an existing folder adds it.
    """
    exactly_one(ratio=ratio, nodes=nodes)
    request = Request(
        graphs,
        Named(graphs[0], nodes_table, column, standardize, features, features_seed),
        output,
        ratio,
        nodes,
        seed,
        preset,
        method,
        device,
        threads,
        checkpoint,
        memory,
        None if precision is None else precision.value,
        View(edges, edge_seed, inductive, split),
        Guard(min_cluster, max_share, clip, noise, fingerprint),
        Several(parts, partition, alpha, halo, names, shared_seed or None, engine, address, workers, cpus, gpus),
    )
    request.view.check()
    request.named.check()
    if features is not None and not request.view.whole:
        hidden = "--inductive" if inductive else "--edges train"
        raise typer.BadParameter(f"--features derives from all edges, {hidden} hides some: give one of the two")
    special = request.guard.given() | request.limits
    if special and method is not Condenser.plgc:
        name = next(iter(special)).replace("_", "-")
        raise typer.BadParameter(f"--{name} is for plgc: {method.value} does not know it")
    if len(graphs) > 1 or parts is not None or (output / MANIFEST).is_file():
        show(*condense_several(request), json)
    else:
        show(*_condense_one(request), json)


def _condense_one(request: Request) -> tuple[dict[str, Any], str]:
    """One graph into one file; the result and its text."""
    check_alone(request)
    check_not_input([request.output], request.named.files())
    check_writable(request.output)
    check_device(request.device)
    if request.checkpoint is not None:
        check_writable(request.checkpoint / "checkpoint")
    from plgc.runtime.provenance import peak_memory
    from plgc.sources import check_noise

    check_noise(request.guard.clip, request.guard.noise or 0.0)
    start = time.perf_counter()
    data = request.named.load(request.view.split, request.seed)
    shown = request.view.of(data)
    labels = _labels(request, shown)
    began = time.perf_counter()
    with _checkpoints(request) as kept:
        with working() as progress:
            progress("condensing", 0, 1)
            condensed = _made(request, shown, labels, progress, kept)
        condensed.save(request.output)
    spent = seconds(time.perf_counter() - began)
    detail(f"condensed in {spent} on {request.device}, with {condensed.threads} thread(s)")
    detail(f"settings: {condensed.settings}")
    detail(f"chosen from the graph: {condensed.chosen}")
    result = report(request.output, data.name, condensed, time.perf_counter() - start, peak_memory())
    return result, _condense_text(result, condensed)


@contextmanager
def _checkpoints(request: Request) -> Iterator[CheckpointFolder]:
    """Where the run keeps how far it is, until the result is written; who stops it is told how to go on."""
    from plgc.runtime.checkpoint import checkpoint_folder

    kept = checkpoint_folder(request.checkpoint, request.output)
    try:
        yield kept
    except KeyboardInterrupt:
        if kept.holds():
            typer.echo(f"what is done so far is kept in {kept.folder}: the same command goes on from there", err=True)
        raise
    kept.clear()


def _labels(request: Request, shown: Data) -> TrainingLabels | None:
    """The training labels for a method that reads them, which is said; else None."""
    from plgc.graphs import training_labels
    from plgc.rivals.methods import METHODS

    if not METHODS[request.method.value].supervised:
        return None
    labels = training_labels(shown)
    notice(f"{request.method.value} reads the graph's {labels.train.numel()} training labels")
    return labels


def _made(
    request: Request, shown: Data, labels: TrainingLabels | None, progress: Progress, checkpoint: CheckpointFolder
) -> CondensedGraph:
    """What the method makes of what it is shown."""
    from plgc.method.condense import resolve_count
    from plgc.rivals.methods import condense_with

    nodes = resolve_count(shown.num_nodes or 0, request.ratio, request.nodes)
    check_writable(request.output, VALUE * nodes * (0 if shown.x is None else shown.x.shape[1]))
    return condense_with(
        request.method.value,
        shown,
        nodes=nodes,
        labels=labels,
        seed=request.seed,
        preset=request.preset.value,
        device=request.device,
        threads=request.threads,
        progress=progress,
        checkpoint=checkpoint,
        **request.guard.given(),
        **request.limits,
    )


def _condense_text(result: dict[str, Any], condensed: CondensedGraph) -> str:
    source = condensed.source
    known = "a noisy count of " if "edges" not in source else ""
    edges = f"{source['edges'] // 2} edges, " if "edges" in source else ""
    pairs = {
        "graph": f"{result['graph']}{view_text(condensed.seen)}: {known}{source['nodes']} nodes, "
        f"{edges}{source['features']} features",
        "condensed to": f"{result['nodes']} nodes ({100 * result['ratio']:.2g} %), "
        + ("no edges" if condensed.edge_index is None else f"{condensed.edge_index.shape[1] // 2} edges"),
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "cost": f"{seconds(result['seconds'])}, peak memory {size(result['peak_memory_bytes'])}",
    }
    if result["batch_nodes"] is not None:
        pairs["trained"] = f"in batches of {result['batch_nodes']} nodes, since memory is limited"
    if "derived" in condensed.seen:
        pairs["features"] = derived_text(condensed.seen["derived"])
    if result["explained_variance"] is not None:
        share = f"{100 * result['explained_variance']:.0f} % of the embeddings' variance"
        pairs["pseudo-labels"] = f"explain {share} after {result['rounds']} round(s)"
    return facts(pairs)
