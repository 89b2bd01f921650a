"""A trained node model in a form that runs where plgc is not installed: ONNX, or PyTorch's own ``torch.export``."""

from __future__ import annotations

import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from plgc._version import __version__
from plgc.downstream.models import NodeModel
from plgc.downstream.portable import PortableModel
from plgc.runtime.errors import ArtifactError, MissingExtraError, SettingError
from plgc.runtime.files import check_writable, write_atomically

FORMS = ("onnx", "torch-export")
DESCRIPTION = "plgc"  # under which the names of classes and features are in an exported file
OUTPUT = "probabilities"
MOST_STEPS = 100  # of smoothing: a thousand would take minutes to export
LARGEST = 2**31 - 2**20  # bytes of the weights in an ONNX file, which ends at 2 GiB
CHATTY = ("torch.onnx", "torch.export", "onnx_ir", "onnxscript")  # loggers that speak of their own internals


def export_model(
    model: NodeModel, path: str | os.PathLike[str], *, to: str = "onnx", edge_weights: bool = False
) -> Path:
    """Write a node model as one file that runs without plgc, for graphs of any size.

    It takes ``x`` [N, f], float32: the features as they are in the graph, dense; their rows are scaled inside. And
    ``edge_index`` [2, E], int64: every edge once in each direction, no self-loops, as :func:`plgc.load_graph` has them;
    this is not checked when it runs. It gives ``probabilities`` [N, C]. The names of classes and features are in the
    file as JSON.

    Args:
        model: from :func:`plgc.finetune` or :func:`plgc.load_model`.
        path: the file, written whole or not at all.
        to: ``onnx``, or ``torch-export`` for :func:`torch.export.load`.
        edge_weights: take ``edge_weight`` [E], float32, as a third input: for graphs whose edges have weights.

    Raises:
        SettingError: an unknown form.
        ArtifactError: this model cannot be exported: it predicts links, has too many steps, or is too large for ONNX.
        MissingExtraError: ONNX without its packages.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> model = plgc.finetune(plgc.reconstruct(plgc.condense(graph, nodes=40)), graph, shots=3)
        >>> plgc.export_model(model, "model.pt2", to="torch-export").name
        'model.pt2'
    """
    if to not in FORMS:
        raise SettingError(f"unknown form {to!r}: choose {' or '.join(FORMS)}")
    if not isinstance(model, NodeModel):
        raise ArtifactError(
            f"only models that classify nodes are exported, this is a {type(model).__name__}: predict links with plgc "
            "itself (LinkModel.predict_proba, plgc predict)"
        )
    if (steps := model.head.settings.smoothing_steps) > MOST_STEPS:
        raise ArtifactError(
            f"this model smooths its predictions in {steps} steps, and an exported file, which holds them one by one, "
            f"takes {MOST_STEPS}: train it with fewer (HeadSettings.smoothing_steps)"
        )
    check_writable(path)
    make = _onnx_bytes if to == "onnx" else _torch_bytes
    return write_atomically(path, make(model, edge_weights))


def describe(model: NodeModel) -> dict[str, Any]:
    """What an exported file says of the model, as plain values."""
    return {"version": __version__, "scaling": model.backbone.scaling, **model.names.to_header()}


def input_shapes(model: NodeModel, edge_weights: bool) -> dict[str, tuple[int | str, ...]]:
    """The shapes of what an exported model takes, by name; ``nodes`` and ``edges`` may be any number."""
    shapes = {"x": ("nodes", model.backbone.num_features), "edge_index": (2, "edges")}
    return {**shapes, "edge_weight": ("edges",)} if edge_weights else shapes


def _program(model: NodeModel, edge_weights: bool) -> ExportedProgram:
    """The model for any number of nodes and edges, without a trace of where it was made."""
    sizes = {"nodes": Dim("nodes"), "edges": Dim("edges")}
    dynamic = {
        name: {place: sizes[size] for place, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in input_shapes(model, edge_weights).items()
    }
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    example = (torch.ones(5, model.backbone.num_features), edges, torch.ones(6))[: len(dynamic)]
    program = torch.export.export(PortableModel(model), example, dynamic_shapes=dynamic)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def _torch_bytes(model: NodeModel, edge_weights: bool) -> bytes:
    content = io.BytesIO()
    with _quiet():
        program = _program(model, edge_weights)
        torch.export.save(program, content, extra_files={f"{DESCRIPTION}.json": json.dumps(describe(model))})
    return content.getvalue()


def _onnx_bytes(model: NodeModel, edge_weights: bool) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ImportError as error:
        raise MissingExtraError("exporting to ONNX needs onnx and onnxscript: pip install 'plgc[onnx]'") from error
    size = 4 * sum(tensor.numel() for tensor in PortableModel(model).state_dict().values())
    if size > LARGEST:
        raise ArtifactError(
            f"this model has {size:,} bytes of weights, an ONNX file holds {LARGEST:,}: use torch-export instead"
        )
    with _quiet():
        made = torch.onnx.export(
            _program(model, edge_weights),
            dynamo=True,
            verbose=False,
            input_names=list(input_shapes(model, edge_weights)),
            output_names=[OUTPUT],
        )
    assert made is not None
    proto = made.model_proto
    proto.producer_name, proto.producer_version = "plgc", __version__
    _tidy(proto.graph)
    onnx.helper.set_model_props(proto, {DESCRIPTION: json.dumps(describe(model))})
    return proto.SerializeToString(deterministic=True)


def _tidy(graph: Any) -> None:
    """Name the sizes of an ONNX graph's inputs and output, and leave out what torch recorded of its own code."""
    x, edge_index = graph.input[0].type.tensor_type.shape, graph.input[1].type.tensor_type.shape
    names = {x.dim[0].dim_param: "nodes", edge_index.dim[1].dim_param: "edges"}
    for part in (*graph.input, *graph.output):
        for size in part.type.tensor_type.shape.dim:
            if size.dim_param in names:
                size.dim_param = names[size.dim_param]
    for part in (*graph.node, *graph.input, *graph.output):
        part.ClearField("metadata_props")
    graph.ClearField("metadata_props")
    graph.ClearField("value_info")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch and ONNX say of their own internals; errors are still raised."""
    loggers = {name: logging.getLogger(name) for name in CHATTY}
    levels = {name: logger.level for name, logger in loggers.items()}
    try:
        for logger in loggers.values():
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, logger in loggers.items():
            logger.setLevel(levels[name])
