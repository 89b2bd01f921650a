"""Two files that show that attacks work: one of real nodes, in which members are found, and one of noise."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.graphs.bare import bare_graph
from plgc.method.stage_one import unit_blocks
from plgc.sparse.inputs import prepare, resolve_scaling


def publish_members(graph: Data, seed: int) -> CondensedGraph:
    """The positive control: a file of real nodes, with a random projection of Â²X as Ỹ. Every attack has to succeed.

    It holds all nodes of the graph: members that are not in the file would leave no trace for an attack to find.
    """
    bare = bare_graph(graph)
    scaling = resolve_scaling(bare.x, "auto")
    inputs = prepare(bare, scaling)
    projection = torch.randn(inputs.num_features, 32, generator=torch.Generator().manual_seed(seed))
    return CondensedGraph(
        features=propagated_features(inputs, 0).float(),
        pseudo_labels=unit_blocks(propagated_features(inputs) @ projection, (32,)),
        counts=torch.ones(inputs.num_nodes, dtype=torch.int64),
        blocks=(32,),
        scaling=scaling,
        seed=seed,
        threads=torch.get_num_threads(),
        settings={"control": "real nodes"},
        nodes_requested=inputs.num_nodes,
    )


def publish_noise(graph: Data, seed: int, nodes: int | None = None) -> CondensedGraph:
    """The negative control: rows of random words and random Ỹ, in which no attack may find anybody.

    Args:
        graph: its features say how many words a row has on average, and nothing else.
        seed: of the words.
        nodes: rows; None for as many as the graph has nodes.
    """
    made = publish_members(graph, seed)
    count, generator = nodes or made.num_nodes, torch.Generator().manual_seed(seed)
    density, shape = (made.features != 0).float().mean(), (count, made.num_features)
    features = (torch.rand(shape, generator=generator) < density) * torch.rand(shape, generator=generator)
    vectors = unit_blocks(torch.randn(count, sum(made.blocks), generator=generator), made.blocks)
    return replace(
        made,
        features=features,
        pseudo_labels=vectors,
        counts=torch.ones(count, dtype=torch.int64),
        settings={"control": "noise"},
        nodes_requested=count,
    )
