"""The student of trajectory matching: its steps on the condensed nodes, and how far from its goal they end.

Gradient descent moves W1 within the span of the K condensed rows only: W1 = W1_t − η X'ᵀM with M [K, h] the sum of the
gradients at the hidden layer. So the student's steps need X' only as its Gram matrix, K² numbers instead of K · f.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.rivals.trajectory.experts import Cohort, Field, Weights, initial_weights
from plgc.rivals.trajectory.settings import TrajectorySettings
from plgc.runtime.replay import Replayed

BLOCK = 250  # student steps whose hidden layers are rebuilt together on the way back


class _Student(torch.autograd.Function):
    """q steps of gradient descent of a two-layer network on K nodes, and the way back through them.

    Inputs: ηG [K, K] with G = X̃X̃ᵀ (X̃: X' and a column of ones for the bias), H0 = X̃W1 [K, h], W2, b2, soft labels
    Y [K, C], η, q. Outputs: M [K, h], W2, b2 at the end; W1 has moved by −η X̃ᵀM. One step:

        H = H0 − ηG M,  A = relu(H),  E = (softmax(A W2 + b2) − Y) / K
        M += (E W2ᵀ) ⊙ 1[H > 0],  W2 −= η AᵀE,  b2 −= η 1ᵀE

    Only M, W2 and b2 of every step are kept; the rest is rebuilt, many steps in one product.
    """

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, hidden: Tensor, second: Tensor, bias: Tensor, target: Tensor, rate: Tensor, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        moved, seconds, biases = _there(gram, hidden, second, bias, target, rate, constants=(steps,))
        ctx.save_for_backward(gram, hidden, target, rate, moved, seconds, biases)
        return moved[-1].clone(), seconds[-1].clone(), biases[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*_back(*ctx.saved_tensors, *grads), None)


def _steps(
    gram: Tensor, hidden: Tensor, second: Tensor, bias: Tensor, target: Tensor, rate: Tensor, steps: int
) -> tuple[Tensor, ...]:
    """M, W2 and b2 before the first step and after every one."""
    moved = hidden.new_zeros(steps + 1, *hidden.shape)
    seconds, biases = second.new_empty(steps + 1, *second.shape), bias.new_empty(steps + 1, *bias.shape)
    seconds[0], biases[0] = second, bias
    ones = target.new_ones(1, len(target))
    for step in range(steps):
        now = seconds[step]
        active = torch.addmm(hidden, gram, moved[step], alpha=-1).relu_()
        error = torch.addmm(biases[step], active, now).softmax(1).sub_(target).div_(len(target))
        torch.add(moved[step], (error @ now.t()).mul_(active > 0), out=moved[step + 1])
        error.mul_(rate)
        torch.addmm(now, active.t(), error, alpha=-1, out=seconds[step + 1])
        torch.addmm(biases[step][None], ones, error, alpha=-1, out=biases[step + 1][None])
    return moved, seconds, biases


def _steps_back(
    gram: Tensor,
    hidden: Tensor,
    target: Tensor,
    rate: Tensor,
    moved: Tensor,
    seconds: Tensor,
    biases: Tensor,
    *grads: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of ηG, H0, W2, b2, Y and η from those of the last M, W2 and b2."""
    g_moved, g_second, g_bias = (grad.clone() for grad in grads)
    g_gram, g_hidden, g_target = torch.zeros_like(gram), torch.zeros_like(hidden), torch.zeros_like(target)
    g_rate, nodes, ones = torch.zeros_like(rate), len(target), target.new_ones(1, len(target))
    last = len(moved) - 1
    for end in range(last, 0, -BLOCK):
        part = slice(max(0, end - BLOCK), end)
        before = moved[part]
        active = (hidden - gram @ before).relu_()
        mask = (active > 0).to(active.dtype)
        share = torch.baddbmm(biases[part][:, None], active, seconds[part]).softmax(2)
        error = (share - target) / nodes
        scaled = error * -rate
        g_active, g_error = torch.empty_like(active), torch.empty_like(error)
        from_steps = torch.empty_like(error)
        for step in range(len(before) - 1, -1, -1):
            act, err, now, soft = active[step], error[step], seconds[part][step], share[step]
            torch.addmm(g_bias, act, g_second, out=from_steps[step])
            through = g_moved * mask[step]
            back = torch.addmm(from_steps[step] * -rate, through, now, out=g_error[step])
            weighted = soft * back
            g_logits = torch.addcmul(weighted, soft, weighted.sum(1, keepdim=True), value=-1).div_(nodes)
            both = torch.mm(g_logits, now.t()).addmm_(scaled[step], g_second.t())
            torch.mul(both, mask[step], out=g_active[step])
            g_second = g_second.addmm(through.t(), err).addmm_(act.t(), g_logits)
            g_bias = torch.addmm(g_bias[None], ones, g_logits)[0]
            g_moved = torch.addmm(g_moved, gram, g_active[step], alpha=-1)
        g_rate -= (from_steps * error).sum()
        g_target -= g_error.sum(0) / nodes
        g_hidden += g_active.sum(0)
        g_gram -= g_active.transpose(0, 1).flatten(1) @ before.transpose(0, 1).flatten(1).t()
    return g_gram, g_hidden, g_second, g_bias, g_target, g_rate


_there, _back = Replayed(_steps), Replayed(_steps_back)


def matching_loss(
    features: Tensor, target: Tensor, rate: Tensor, start: Weights, goal: Weights, steps: int, *, squared: bool
) -> Tensor:
    """ℒ of one segment.

    Args:
        features: X' [K, f].
        target: labels as shares [K, C].
        rate: η.
        start: θ_t.
        goal: θ_{t+p}.
        steps: q.
        squared: SFGC's ℒ; its root is GEOM's.
    """
    wide = F.pad(features, (0, 1), value=1.0)
    moved, second, bias = _Student.apply(  # pyright: ignore
        rate * (wide @ wide.t()), wide @ start.first, start.second, start.bias, target, rate, steps
    )
    end = Weights(start.first - rate * (wide.t() @ moved), second, bias)
    left = sum((a - b).square().sum() for a, b in zip(end, goal, strict=True))
    way = sum((a - b).square().sum() for a, b in zip(start, goal, strict=True))
    ratio = torch.as_tensor(left / way)
    return ratio if squared else ratio.sqrt()


def student_error(
    features: Tensor, target: Tensor, seen: Field, y: Tensor, settings: TrajectorySettings, seed: int
) -> Tensor:
    """Train a GCN on the condensed nodes, as GEOM's code does: its lowest error on validation nodes, by 20 epochs."""
    hidden, generator = settings.expert.hidden, torch.Generator().manual_seed(seed)
    weights = initial_weights(features.shape[1], hidden, target.shape[1], generator)
    cohort = Cohort([Weights(*(part.to(features.device) for part in weights))])
    optimizer = torch.optim.Adam(cohort.parameters, lr=1e-3, weight_decay=5e-4, fused=True)
    own, equal = Field(features, None), target.new_full((len(target),), 1 / len(target))
    errors = []
    for epoch in range(settings.choice_epochs):
        optimizer.zero_grad()
        cohort.losses(own, target, equal).sum().backward()
        optimizer.step()
        if epoch % 20 == 0:
            with torch.no_grad():
                errors.append((cohort.logits(seen)[0].argmax(1) != y).float().mean())
    return torch.stack(errors).min()
