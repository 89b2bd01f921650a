"""Graph neural tangent kernel regression: the error of an infinitely wide GNN that learned from condensed nodes.

SFGC (Zheng et al., 2023) scores its condensed nodes by it, without training anything. The kernel (Du et al., 2019) is
that of a GNN that averages over closed neighbourhoods, twice, each time followed by two fully connected ReLU layers:

    Σ ← M1 Σ M2ᵀ,  Θ ← M1 Θ M2ᵀ                          averaging, M = D⁻¹(A + I)
    Σ ← κ1(Σ),     Θ ← Θ ⊙ κ0(Σ) + κ1(Σ)                 a layer, κ0 and κ1 the arc-cosine kernels

(SFGC's own code leaves out the averaging when it computes the norms that κ scales by, so that correlations exceed 1
and are cut off; here the norms are those of the kernel itself.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.downstream.backbone import propagated_features
from plgc.sparse.inputs import Inputs

BLOCKS, LAYERS = 2, 2


@dataclass(frozen=True)
class Nodes:
    """Nodes ready for the kernel: features, M (None where A' = I), and the norms √Σ_vv before every layer."""

    x: Tensor
    mean: Tensor | None
    norms: tuple[Tensor, ...]


@dataclass(frozen=True)
class Regression:
    """Validation nodes [V] with centred one-hot labels [V, C], and the ridge relative to the kernel's mean diagonal."""

    nodes: Nodes
    target: Tensor
    ridge: float

    def predict(self, x: Tensor, label: Tensor) -> Tensor:
        """Kernel ridge regression from structure-free nodes [K, f] with classes [K]: Θ_vs (Θ_ss + λI)⁻¹ Y_s."""
        source = kernel_nodes(x, None)
        gram = tangent_kernel(source, source)
        shift = self.ridge * gram.diagonal().mean()
        ridged = gram + shift * torch.eye(len(x), dtype=gram.dtype, device=gram.device)
        target = centred(label, self.target.shape[1])
        solution = torch.linalg.solve_ex(ridged, target).result  # solve_ex does not wait for the device
        return tangent_kernel(self.nodes, source) @ solution

    def error(self, x: Tensor, label: Tensor) -> Tensor:
        """Half of the mean squared error on the validation nodes, as a tensor: nothing waits for it."""
        return 0.5 * (self.predict(x, label) - self.target).square().mean()


def regression(inputs: Inputs, val: Tensor, label: Tensor, classes: int, ridge: float) -> Regression:
    """Prepare for regression on the validation nodes and the edges among them.

    Args:
        inputs: the graph.
        val: numbers of the validation nodes; the kernel among them takes V² memory, so give a sample of many.
        label: [V] their classes.
        classes: C.
        ridge: λ, in units of the kernel's mean diagonal.
    """
    adjacency, device = inputs.adjacency, inputs.device
    place = torch.full((inputs.num_nodes,), -1, device=device)
    place[val] = torch.arange(val.numel(), device=device)
    row, col = place[adjacency.row], place[adjacency.col]
    inside = (row >= 0) & (col >= 0)
    mean = torch.zeros(val.numel(), val.numel(), dtype=torch.float64, device=device)
    mean[row[inside], col[inside]] = adjacency.sum_matrix.values()[inside].to(torch.float64)
    nodes = kernel_nodes(propagated_features(inputs, 0)[val], mean / mean.sum(1, keepdim=True))
    return Regression(nodes, centred(label.to(device), classes), ridge)


def centred(label: Tensor, classes: int) -> Tensor:
    """One-hot labels less their mean over the classes."""
    return torch.nn.functional.one_hot(label, classes).to(torch.float64) - 1 / classes


def kernel_nodes(x: Tensor, mean: Tensor | None) -> Nodes:
    """Features and the norms that the kernel needs of them."""
    x = x.detach().to(torch.float64)
    norms: list[Tensor] = []
    _recursion(x @ x.t(), mean, mean, None, norms)
    return Nodes(x, mean, tuple(norms))


def tangent_kernel(left: Nodes, right: Nodes) -> Tensor:
    """Θ between two sets of nodes."""
    return _recursion(left.x @ right.x.t(), left.mean, right.mean, (left.norms, right.norms), None)


def _recursion(
    sigma: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    norms: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] | None,
    found: list[Tensor] | None,
) -> Tensor:
    """Both kernels through all layers; norms are those given, or are read from the diagonal and added to ``found``."""
    sigma = theta = _average(sigma, left, right)
    for block in range(BLOCKS):
        if block:
            sigma, theta = _average(sigma, left, right), _average(theta, left, right)
        for layer in range(LAYERS):
            if norms is None:
                assert found is not None
                found.append(sigma.diagonal().clamp(min=0).sqrt())
                rows = columns = found[-1]
            else:
                rows, columns = (side[block * LAYERS + layer] for side in norms)
            scale = (rows[:, None] * columns).clamp(min=1e-300)
            cosine = (sigma / scale).clamp(-1, 1)
            turn = (math.pi - cosine.arccos()) / math.pi
            sigma = scale * (cosine * turn + (1 - cosine.square()).sqrt() / math.pi)
            theta = theta * turn + sigma
    return theta


def _average(kernel: Tensor, left: Tensor | None, right: Tensor | None) -> Tensor:
    kernel = kernel if left is None else left @ kernel
    return kernel if right is None else kernel @ right.t()
