"""CTGC with the head of its own code, beside ours: accuracy on validation nodes with few labels.

    PLGC_DATA=… python benchmarks/ctgc_head.py

Its authors classify by a logistic regression on raw embeddings. Our tables' head centres embeddings and scales them to
unit length, penalises its weights per label and smooths its predictions over the graph. Minutes on one core.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

import plgc
from plgc.downstream.tasks.node import score_nodes
from plgc.evaluation.scoring import learn, score
from plgc.graphs import node_labels, num_classes
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.rivals.methods import condense_with

GRAPHS = (("cora", 70), ("citeseer", 60))


def main() -> None:
    for (name, nodes), shots in ((graph, shots) for graph in GRAPHS for shots in (3, 5)):
        case = draw_case(plgc.load_graph(name), Protocol(shots=shots), 0)
        assert case.clean is not None
        model = learn("ctgc", case, [condense_with("ctgc", case.seen, nodes=nodes)])
        rows, y = model.embed(model.prepare(case.visible)), node_labels(case.graph)
        logits = linear_probe(rows, case.clean, y[case.clean], num_classes(case.graph), 0)
        theirs = score_nodes(torch.softmax(logits, dim=1), case.graph, "val")["accuracy"]
        ours = score(model, case, "node", on="val")["accuracy"]
        print(f"{name}, {shots} shots: {theirs:.1f} with its head, {ours:.1f} with ours")


def linear_probe(embedding: Tensor, labelled: Tensor, target: Tensor, classes: int, seed: int) -> Tensor:
    """Logits of a logistic regression on raw embeddings: 200 epochs of Adam, .01 and then .001, weight decay 5e-4."""
    width = embedding.shape[1]
    bound = (6 / (width + classes)) ** 0.5
    weight = torch.empty(width, classes).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    weight = weight.to(embedding.device).requires_grad_()
    bias = torch.zeros(classes, device=embedding.device, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.01, weight_decay=5e-4, fused=True)
    rows = embedding[labelled]
    for epoch in range(200):
        if epoch == 100:
            optimizer.param_groups[0]["lr"] = 0.001
        loss = F.cross_entropy(rows @ weight + bias, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (embedding @ weight + bias).detach()


if __name__ == "__main__":
    main()
