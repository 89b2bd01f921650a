"""``plgc inspect`` prints what is in a condensed graph and, with ``--theory``, what Theorem 1 says about it."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from plgc.cli.inputs import MANIFEST, GraphOptions, check_features
from plgc.cli.options import GRAPH_HELP, Backbone, Device, Json, Kind, Seed, check_device, examples, takes, values_of
from plgc.cli.output import derived_text, facts, partition_text, seen_text, show, size, table, working

EXAMPLES = examples(
    "plgc inspect cora.safetensors",
    "plgc inspect parts/ --json",
    "plgc inspect cora.safetensors --graph cora --theory",
)
VACUOUS = "vacuous"
DEVIATIONS = ("epsilon", "net_epsilon")
CHANNEL_WORDS = {"edges": "with edges", "plain": "without"}
RECORDED = (  # shown as the file has it
    *("method", "version", "seed", "threads", "scaling", "nodes_requested"),
    *("source", "fingerprint", "settings", "chosen", "curves", "largest_share"),
)


@takes(GraphOptions)
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file made by 'plgc condense', or a folder with a manifest.")
    ],
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="GRAPH", help=f"With --theory, the graph to embed. {GRAPH_HELP}")
    ] = None,
    theory: Annotated[
        bool, typer.Option("--theory", help="Compare the bound of Theorem 1 with what is measured on --graph.")
    ] = False,
    delta: Annotated[float, typer.Option(metavar="P", help="The bound may fail with this probability.")] = 0.05,
    beta: Annotated[float, typer.Option(metavar="B", help="Ask for a deviation of Δ/B at most: above 2.")] = 4.0,
    backbone: Backbone = Kind.gcn,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    **given: Any,
) -> None:
    """Print what a condensed graph, or a folder of them, holds and how it was made.

    With --theory, also what the paper's Theorem 1 promises for its pseudo-labels, and what is measured on a graph:
    embedded by a rebuilt backbone, every node assigned to the nearest pseudo-label. The options other than --json are
    for --theory.
    """
    if theory and graph is None:
        raise typer.BadParameter("--theory needs a graph: give --graph, the one that was condensed")
    if graph is not None and not theory:
        raise typer.BadParameter("--graph is only used by --theory: give both")
    named = GraphOptions(graph or "", **values_of(GraphOptions, given))
    if graph is None and not named.plain:
        raise typer.BadParameter("options on how to read a graph go with --graph and --theory: give both")
    if file.is_dir() or file.name == MANIFEST:
        if theory:
            raise typer.BadParameter(f"--theory is for one condensed graph: name a file in {file}")
        result = describe_folder(file)
        show(result, folder_text(result), json)
        return
    result = describe(file)
    text = description(result)
    if graph is not None:
        check_device(device)
        import plgc
        from plgc.evaluation.theory import diagnose

        condensed = plgc.CondensedGraph.load(file)
        data = named.as_in(condensed.seen.preprocessing).load()
        check_features([condensed], data)
        with working() as progress:
            progress(f"embedding {data.name}", 0, 1)
            found = diagnose(condensed, data, kind=str(backbone), seed=seed, delta=delta, beta=beta, device=device)
        diagnosis = {"graph": data.name, "backbone": str(backbone), "seed": seed, **found.to_dict()}
        result["theory"] = diagnosis
        text = f"{text}\n\n{theory_text(diagnosis)}"
    show(result, text, json)


def describe(file: Path) -> dict[str, Any]:
    """Everything about a condensed graph but its tensors, as plain values."""
    import hashlib

    from plgc.artifact.condensed import CondensedGraph
    from plgc.artifact.degenerate import warnings_of
    from plgc.artifact.lineage import lineage
    from plgc.artifact.members import told_of_members

    condensed = CondensedGraph.load(file)
    content = file.read_bytes()
    counts, labels = condensed.counts, condensed.pseudo_labels
    return {
        "artifact": str(file),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "nodes": condensed.num_nodes,
        "features": condensed.num_features,
        "seen": condensed.seen.to_dict(),
        "derived": condensed.seen.derived,
        "edges": None if condensed.edge_index is None else condensed.edge_index.shape[1] // 2,
        "classes": condensed.num_classes,
        "pseudo_label_width": None if labels is None else labels.shape[1],
        "blocks": list(condensed.blocks),
        "channels": list(condensed.channels),
        "counts": {"min": int(counts.min()), "median": int(counts.median()), "max": int(counts.max())},
        "ancestry": [step.to_dict() for step in condensed.ancestry],
        "lineage": lineage(condensed.ancestry),
        "privacy": told_of_members(condensed),
        "warnings": warnings_of(condensed),
        **{name: getattr(condensed, name) for name in RECORDED},
    }


def description(result: dict[str, Any]) -> str:
    """The result of :func:`describe` as text."""
    source, counts = result["source"], result["counts"]
    pairs = {
        "file": f"{result['artifact']}, {size(result['bytes'])}",
        "sha256": result["sha256"],
        "made by": f"{result['method']} of plgc {result['version']}, "
        + (f"preset {result['settings']['preset']}, " if "preset" in result["settings"] else "")
        + f"seed {result['seed']}, {result['threads']} thread(s)",
        "nodes": f"{result['nodes']} synthetic nodes, {result['features']} features (row scaling: {result['scaling']})",
        "edges": "none" if result["edges"] is None else str(result["edges"]),
        **_targets(result),
        "represent": f"{counts['min']} to {counts['max']} original nodes each (median {counts['median']})",
    }
    if result["derived"]:
        pairs["derived"] = f"features {derived_text(result['derived'])}; give graphs the same"
    if table := result["seen"].get("preprocessing"):
        from plgc.graphs.preprocessing import Preprocessing

        known = Preprocessing.from_dict(table)
        pairs["table"] = known.summary()
        pairs |= {f"column {name}": text for name, text in known.told().items()}
    pairs |= _made_from(result, source)
    if result["lineage"]:
        pairs["ancestry"] = result["lineage"]
    pairs["fingerprint"] = result["fingerprint"] or "none"
    pairs["privacy"] = result["privacy"]["text"]
    if result["warnings"]:
        pairs["warning"] = "; ".join(result["warnings"])
    for name, values in result["curves"].items():
        if values:
            pairs[f"curve {name}"] = f"{values[0]:.4g} to {values[-1]:.4g} in {len(values)} values"
    return facts(pairs)


def _made_from(result: dict[str, Any], source: dict[str, int]) -> dict[str, str]:
    """The original graph's counts, and what was done to what is published."""
    from plgc.graphs.attributes import Seen

    settings, seen, pairs = result["settings"], seen_text(Seen.from_dict(result["seen"])), {}
    if {"nodes", "edges"} <= source.keys():
        share = 100 * result["nodes"] / source["nodes"]
        halo = f", and a halo of {source['halo']} nodes" if source.get("halo") else ""
        pairs["made from"] = (
            f"{source['nodes']} nodes and {source['edges'] // 2} edges ({share:.2g} % of the nodes kept){halo}{seen}"
        )
    elif "nodes" in source:
        pairs["made from"] = f"about {source['nodes']} nodes (a rounded or noisy count){seen}"
    if settings.get("min_cluster", 1) > 1:
        pairs["min cluster"] = f"no synthetic node represents fewer than {settings['min_cluster']} nodes"
    if settings.get("max_share", 1.0) < 1:
        pairs["max share"] = f"no value comes from one node by more than {100 * settings['max_share']:g} %"
    if result["largest_share"] is not None:
        pairs["largest share"] = (
            f"one node moves a published number by {100 * result['largest_share']:.0f} % of its noise, at most"
        )
    if "clip" in settings:
        pairs["noise"] = f"{settings['noise']:g}, rows clipped to {settings['clip']:g}"
    return pairs


def describe_folder(folder: Path) -> dict[str, Any]:
    """The sources that a manifest lists, each as :func:`describe` has it."""
    from plgc.sources import open_sources, read_manifest

    folder = folder if folder.is_dir() else folder.parent
    partition = read_manifest(folder).partition
    sources = [
        {"name": source.name, "weight": source.weight, **describe(source.path)} for source in open_sources([folder])
    ]
    return {
        "manifest": str(folder / MANIFEST),
        "nodes": sum(source["nodes"] for source in sources),
        "bytes": sum(source["bytes"] for source in sources),
        "partition": partition,
        "sources": sources,
    }


def folder_text(result: dict[str, Any]) -> str:
    """The result of :func:`describe_folder` as text."""
    rows = [["source", "nodes", "features", "seed", "weight", "size", "sha256"]]
    for source in result["sources"]:
        numbers = [str(source["nodes"]), str(source["features"]), str(source["seed"]), f"{source['weight']:g}"]
        rows.append([source["name"], *numbers, size(source["bytes"]), source["sha256"][:12]])
    heading = f"{result['manifest']}: {len(rows) - 1} source(s), {result['nodes']} nodes, {size(result['bytes'])}"
    cut = f"\n{partition_text(result['partition'])}" if result["partition"] else ""
    told = "\n".join(dict.fromkeys(f"privacy: {source['privacy']['text']}" for source in result["sources"]))
    return f"{heading}{cut}\n\n{table(rows)}\n\n{told}\n\n'plgc inspect FILE' says more of each."


def _targets(result: dict[str, Any]) -> dict[str, str]:
    """The labels of the synthetic nodes: pseudo-labels, or classes."""
    if result["pseudo_label_width"] is None:
        return {"labels": f"classes, {result['classes']} of them"}
    counts = Counter(result["channels"])
    encoders = " and ".join(
        f"{counts[name]} encoder(s) {words}" for name, words in CHANNEL_WORDS.items() if counts[name]
    )
    return {"pseudo-labels": f"{result['pseudo_label_width']} wide, from {encoders}"}


def theory_text(theory: dict[str, Any]) -> str:
    """A diagnosis of :mod:`plgc.evaluation.theory` as text: the bound, then what is measured on halves of clusters."""
    sizes, compared, enough = theory["sizes"], theory["compared"], theory["sufficient_size"]
    promised, directions = theory["promised"], theory["directions"]
    epsilon, net = ([v for count, v in zip(sizes, theory[key], strict=True) if count >= 2] for key in DEVIATIONS)
    vacuous = f"{VACUOUS} for {promised['vacuous']} of {compared}, as no distance exceeds {theory['span']:.3g}"
    reached = f"{theory['sufficient_clusters']} of {compared} clusters have it"
    pairs = {
        "embedded": f"{theory['nodes']} nodes of {theory['graph']}, {theory['width']} wide ({theory['backbone']})",
        "cluster size s_k": f"{min(sizes)} to {max(sizes)}, median {statistics.median(sizes):g}",
        "clusters": f"{compared} of {theory['clusters']}; left out {theory['empty']} empty, {theory['single']} of one",
        "noise σ": f"{theory['sigma']:.3g} (estimated from below)",
        "separation Δ": f"{theory['gap']:.3g} between the two closest means",
        "deviation ε_k": f"{min(epsilon):.3g} to {max(epsilon):.3g}" + (f"; {vacuous}" if promised["vacuous"] else ""),
        "by Lemmas 1, 2": f"{min(net):.3g} to {max(net):.3g}, over a net of at most 5^{theory['width']} directions",
        "one direction": f"{directions['t_max']:.3g} at most between two halves (t_k of Lemma 2)",
        "sufficient s_k": "none, two means coincide"
        if enough is None
        else f"{enough} for ε <= Δ/{theory['beta']:g}; {reached}",
        "interior radius": f"{_value(promised['interior_radius'])} (Δ/2 - ε_max)",
        "kept separation": f"{_value(promised['separation'])} (Δ - 2ε_max)",
    }
    return (
        f"Theorem 1, to hold with probability {1 - theory['delta']:g}:\n\n{facts(pairs)}\n\n"
        "Measured on random halves of each cluster: the first half's mean is the centre, the second's the\n"
        f"pseudo-label, as it is and normalised:\n\n{table(_halves_rows(theory))}\n\n"
        f"'{VACUOUS}': the theorem says nothing here. What is measured may be good, but is not explained by it."
    )


def _halves_rows(theory: dict[str, Any]) -> list[list[str]]:
    halves, forms = theory["promised_halves"], (theory["raw"], theory["normalized"])
    bound = halves["epsilon_max"] if halves["epsilon_max"] < theory["span"] else None
    within = f"{VACUOUS} for {halves['vacuous']}" if halves["vacuous"] else "all"
    along, likely = theory["directions"], f"{100 * (1 - theory['delta']):g} %"
    inner = VACUOUS if halves["interior_radius"] is None else "all"

    def row(name: str, promised: str, key: str, style: str, suffix: str = "") -> list[str]:
        return [name, promised, *(f"{form[key]:{style}}{suffix}" for form in forms)]

    return [
        ["", "promised", "raw mean", "normalised"],
        ["Lemma 2: within t_k, widest direction", likely, f"{along['widest']} of {theory['compared']}", ""],
        ["Lemma 2: within t_k, mean to mean", likely, f"{along['between']} of {along['pairs']}", ""],
        row("(i) farthest from its centre", _value(bound), "distance_max", ".3g"),
        row("(i) median distance", "", "distance_median", ".3g"),
        row("(i) clusters within ε_A + ε_B", within, "within_bound", "d", f" of {theory['compared']}"),
        ["(ii) interior points", "", *[f"{theory['interior']} of {theory['points']}"] * 2],
        row("(ii) interior points recovered", inner, "interior_recovered", "d", f" of {theory['interior']}"),
        row("(ii) points within Δ/2 recovered", "", "core_recovered", "d", f" of {theory['core']}"),
        row("(ii) all points recovered", "", "recovered", "d", f" of {theory['points']}"),
        row("(iii) closest two", _value(halves["separation"]), "separation", ".3g"),
    ]


def _value(value: float | None) -> str:
    return VACUOUS if value is None else f"{value:.3g}"
