"""``plgc export``: a model or a condensed graph as a file for other software."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plgc.cli.options import Json, examples, takes
from plgc.cli.output import derived_text, facts, notice, show, size, working
from plgc.cli.written import KINDS, Force, check_output
from plgc.runtime.errors import ArtifactError

if TYPE_CHECKING:
    from plgc.downstream.models import NodeModel

EXAMPLES = examples(
    "plgc export model.safetensors --to onnx -o model.onnx",
    "plgc export model.safetensors --to torch-export -o model.pt2",
    "plgc export cora.safetensors --to pyg -o cora.pt",
)
Form = StrEnum("Form", {"onnx": "onnx", "torch_export": "torch-export", "pyg": "pyg"})  # plgc.downstream.export, PyG


@takes()
def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A node model of 'plgc train'; with --to pyg a condensed graph.")
    ],
    to: Annotated[Form, typer.Option("--to", help="The form to write.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write.")],
    edge_weights: Annotated[
        bool, typer.Option("--edge-weights", help="The exported model takes weights of edges as a third input.")
    ] = False,
    force: Force = False,
    json: Json = False,
    **_given: Any,
) -> None:
    """Write a node model so that it runs without plgc, or a condensed graph as a PyG Data.

    An exported model (onnx, torch-export) takes the features of all nodes and the edges of any graph, and gives class
    probabilities. Every edge is given once in each direction, without self-loops.
    """
    if to is Form.pyg and edge_weights:
        raise typer.BadParameter("--edge-weights is for models: leave it out with --to pyg")
    check_output(output, [file], "an exported graph" if to is Form.pyg else "an exported model", force)
    _check_pair(file, to)
    start = time.perf_counter()
    result, text = _export_graph(file, output) if to is Form.pyg else _export_model(file, output, to, edge_weights)
    written = output.stat().st_size
    result = {"exported": str(output), "to": str(to), **result}
    result |= {"seconds": time.perf_counter() - start, "bytes": written}
    show(result, facts({"exported": f"{output}, {size(written)}", **text}), json)


def _check_pair(file: Path, to: Form) -> None:
    """Refuse a condensed graph where a model is needed, and a model where a condensed graph is."""
    if not file.is_file():
        return
    if to is Form.pyg and KINDS["a model"](file):
        raise ArtifactError(f"{file} is a model, and pyg is for condensed graphs: give --to onnx or --to torch-export")
    if to is not Form.pyg and KINDS["a condensed graph"](file):
        from plgc.artifact.condensed import CondensedGraph

        condensed = CondensedGraph.load(file)
        first = "train one on it with 'plgc train' first, or"
        raise ArtifactError(
            f"{file} is a condensed graph made by {condensed.method}, and {to} is for models: "
            f"{first if condensed.pseudo_labels is not None else 'it has labels in place of pseudo-labels, so'} "
            "give --to pyg"
        )


def _export_graph(file: Path, output: Path) -> tuple[dict[str, Any], dict[str, str]]:
    from plgc.artifact.condensed import CondensedGraph
    from plgc.artifact.export import save_pyg

    condensed = CondensedGraph.load(file)
    save_pyg(condensed, output)
    found = {"method": condensed.method, "nodes": condensed.num_nodes, "features": condensed.num_features}
    return found, {
        "holds": f"{condensed.num_nodes} nodes with {condensed.num_features} features",
        "opens with": "torch_geometric.data.Data.from_dict(torch.load(file))",
    }


def _export_model(file: Path, output: Path, to: Form, edge_weights: bool) -> tuple[dict[str, Any], dict[str, str]]:
    import plgc
    from plgc.downstream.export import OUTPUT, input_shapes

    model: Any = plgc.load_model(file)
    with working() as progress:
        progress(f"exporting {file.name}", 0, 1)
        plgc.export_model(model, output, to=str(to), edge_weights=edge_weights)
    shapes, classes = input_shapes(model, edge_weights), model.head.num_classes
    _tell_features(model)
    names = model.names.classes
    found = {
        "inputs": {name: list(shape) for name, shape in shapes.items()},
        "outputs": {OUTPUT: ["nodes", classes]},
        "classes": None if names is None else list(names),
    }
    takes = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in shapes.items())
    return found, {"takes": takes, "gives": f"{OUTPUT} [nodes, {classes}]"}


def _tell_features(model: NodeModel) -> None:
    """What ``x`` has to be, where it is not what the user's file has."""
    if model.names.preprocessing is not None:
        notice(
            f"x is the matrix that the table's columns become, {model.backbone.num_features} wide: its columns are "
            "named in the exported file, plgc.load_graph makes it from a table"
        )
    if model.names.derived is not None:
        notice(f"x are features {derived_text(model.names.derived)}: plgc.load_graph makes them for another graph")
