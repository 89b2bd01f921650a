"""Graphs: loading them from any source, checking them, bringing them to one form, and drawing views of them.

``load`` is where every graph comes in, ``formats`` reads files and objects, ``catalog`` finds graphs by name, ``check``
and ``standard`` make sure that every graph has one form, ``views`` cut and split it, ``labels`` and ``bare`` decide who
is given labels. This package knows ``runtime`` alone: nothing of methods, models or scores.
"""

from plgc.graphs.catalog import GraphEntry, get_graph, list_graphs
from plgc.graphs.check import check_condensable, check_structure
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.npz import save_npz
from plgc.graphs.formats.stored import save_stored
from plgc.graphs.labels import TrainingLabels, training_labels
from plgc.graphs.load import load_graph, node_labels, num_classes, unlabelled
from plgc.graphs.store.run import store_graph
from plgc.graphs.synthetic import citation_graph
from plgc.graphs.views.edges import split_edges, training_edges
from plgc.graphs.views.inductive import training_subgraph, unseen_subgraph
from plgc.graphs.views.splits import draw_labels, draw_shots, generated_split

__all__ = [
    "GraphEntry",
    "TableColumns",
    "TrainingLabels",
    "check_condensable",
    "check_structure",
    "citation_graph",
    "draw_labels",
    "draw_shots",
    "generated_split",
    "get_graph",
    "list_graphs",
    "load_graph",
    "node_labels",
    "num_classes",
    "save_npz",
    "save_stored",
    "split_edges",
    "store_graph",
    "training_edges",
    "training_labels",
    "training_subgraph",
    "unlabelled",
    "unseen_subgraph",
]
