"""Weights that rank edges above non-edges: a few by Newton's method, and one for every coordinate by gradient steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

STEPS = 50  # of Newton's method, which needs about ten
SMALLEST = 2.0**-20  # share of a Newton step; where even that does not help, the minimum is found


def ranking_loss(edges: Tensor, others: Tensor) -> Tensor:
    """Σ log(1 + exp(−(s_edge − s_other))), a smooth count of edges that are ranked below a non-edge.

    Cross-entropy on single pairs asks for right probabilities instead. Where cosines have a long tail, its weights
    rank worse than one cosine alone.
    """
    return F.softplus(others - edges).sum()


def rank_weights(features: Tensor, joined: Tensor, start: Tensor, penalty: float, rounds: int = 5) -> Tensor:
    """w that minimises the ranking loss of s = F w, with ½ c Σ_j σ_j² (w_j − start_j)² beside it.

    σ_j is the standard deviation of feature j, so the penalty does not depend on a feature's scale. Every edge is
    compared with ``rounds`` non-edges, whose mean counts; with few edges, w stays near ``start``.

    Args:
        features: F, one row for every pair of nodes, [E, d].
        joined: which pairs are edges, [E]; there are as many edges as others, at least one.
        start: what w is without any evidence, [d].
        penalty: c.
        rounds: how many non-edges an edge is compared with.
    """
    features, start = features.double(), start.double()
    edges, others = features[joined], features[~joined]
    difference = torch.cat([edges - others.roll(shift, 0) for shift in range(min(rounds, len(others)))])
    share = len(edges) / len(difference)
    stiffness = penalty * features.var(0, correction=0) + 1e-9  # a feature that never changes keeps its start

    def loss(weight: Tensor) -> Tensor:
        scores = difference @ weight
        return share * ranking_loss(scores, torch.zeros_like(scores)) + 0.5 * stiffness @ (weight - start).square()

    weight, now = start, loss(start)
    for _ in range(STEPS):
        wrong = torch.sigmoid(-(difference @ weight))
        gradient = stiffness * (weight - start) - share * (wrong @ difference)
        curvature = share * (difference * (wrong * (1 - wrong))[:, None]).T @ difference + stiffness.diag()
        step, length = torch.linalg.solve(curvature, gradient), 1.0
        while length > SMALLEST and loss(weight - length * step) >= now:
            length /= 2
        if length <= SMALLEST:
            break
        weight = weight - length * step
        now = loss(weight)
    return weight


def rank_deviations(
    halves: list[tuple[Tensor, Tensor]], scale: float, epochs: int, learning_rate: float, penalty: float
) -> Tensor:
    """δ of s = Σ_j (α + δ_j) z_uj z_vj + γ (p_u + p_v), with penalty · ‖δ‖² beside the ranking loss, [d].

    Args:
        halves: products z_uj z_vj of edges and then of as many non-edges [2E, d], with p_u + p_v [2E]; every epoch
            learns from the next of them.
        scale: α at the start.
        epochs: steps of Adam.
        learning_rate: of those steps.
        penalty: on δ, which is 0 at the start.
    """
    products = halves[0][0]
    alpha = torch.full((), scale, device=products.device, requires_grad=True)
    delta = torch.zeros(products.shape[1], device=products.device, requires_grad=True)
    gamma = torch.zeros((), device=products.device, requires_grad=True)
    optimizer = torch.optim.Adam([alpha, delta, gamma], lr=learning_rate, fused=True)
    for epoch in range(epochs):
        products, popularity = halves[epoch % len(halves)]
        edges, others = (products @ (alpha + delta) + gamma * popularity).chunk(2)
        loss = ranking_loss(edges, others.roll(epoch)) + penalty * delta.square().sum()
        optimizer.zero_grad()
        (loss / len(edges)).backward()
        optimizer.step()
    return delta.detach()
