"""The demo's figure. matplotlib is an optional dependency and is imported only when something is drawn."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from plgc.experiments.canvas import new_figure
from plgc.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR_COLORS = ("0.35", "#d95f02", "0.78", "#9ebcda", "#c7d9c0", "#e5cfa3")  # none of the class colours
SHOWN = 5000  # nodes in the scatter plot: more would show no more and take long


def demo_figure(
    embedding: Tensor,
    synthetic: Tensor,
    counts: Tensor,
    classes: Tensor,
    bars: Mapping[str, Sequence[Mapping[str, Any]]],
    groups: Sequence[str],
    path: str | os.PathLike[str],
) -> Path:
    """Draw nodes and synthetic nodes in one plane, and the accuracies beside; write a PNG.

    Args:
        embedding: [N, D] of the graph's nodes.
        synthetic: [K, D] of the synthetic nodes, from the same backbone.
        counts: [K] how many nodes each synthetic one represents; shown as its size.
        classes: [N] the nodes' colours; −1 is grey.
        bars: per method one ``{"mean", "std"}`` for each of the groups.
        groups: names of the groups of bars.
        path: the file.
    """
    figure = new_figure((11.5, 5.0))
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    _scatter(left, embedding, synthetic, counts, classes)
    _bars(right, bars, groups)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return write_atomically(path, buffer.getvalue())


def plane(embedding: Tensor, *others: Tensor) -> list[np.ndarray]:
    """Project on the two principal directions of ``embedding``; the others go into the same plane."""
    centre = embedding.mean(dim=0)
    centred = (embedding - centre).double()
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -2:].flip(1)
    signs = torch.where(directions.sum(dim=0) < 0, -1.0, 1.0)  # an eigenvector's sign is arbitrary: fix it
    return [((part - centre).double() @ (directions * signs)).numpy() for part in (embedding, *others)]


def _scatter(axes: Axes, embedding: Tensor, synthetic: Tensor, counts: Tensor, classes: Tensor) -> None:
    nodes, made = plane(embedding.cpu(), synthetic.cpu())
    shown = np.unique(np.linspace(0, len(nodes) - 1, min(len(nodes), SHOWN)).astype(int))
    labels = classes.cpu().numpy()[shown]
    total = max(1, int(labels.max()) + 1)
    palette = "tab10" if total <= 10 else "tab20" if total <= 20 else "gist_ncar"
    known = labels >= 0
    axes.scatter(*nodes[shown][~known].T, s=5, color="0.75", linewidths=0)
    limit = {"tab10": 10, "tab20": 20}.get(palette, total)
    axes.scatter(
        *nodes[shown][known].T, s=5, c=labels[known], cmap=palette, vmin=-0.5, vmax=limit - 0.5, linewidths=0, alpha=0.6
    )
    areas = 20 + 80 * counts.cpu().double() / counts.max()
    axes.scatter(*made.T, s=areas.numpy(), marker="*", color="black", edgecolors="white", linewidths=0.6)
    axes.set_title(f"{len(nodes)} nodes by class, {len(made)} synthetic nodes (stars)", fontsize=10)
    axes.set_xlabel("first principal component of the rebuilt backbone's embedding", fontsize=9)
    axes.set_ylabel("second", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


def _bars(axes: Axes, bars: Mapping[str, Sequence[Mapping[str, Any]]], groups: Sequence[str]) -> None:
    width = 0.8 / len(bars)
    for place, (name, scores) in enumerate(bars.items()):
        x = np.arange(len(groups)) + (place - (len(bars) - 1) / 2) * width
        means, spreads = [score["mean"] for score in scores], [score["std"] for score in scores]
        color = BAR_COLORS[place % len(BAR_COLORS)]
        drawn = axes.bar(x, means, width, yerr=spreads, capsize=2, label=name, color=color)
        axes.bar_label(drawn, fmt="%.1f", fontsize=7, padding=2)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylim(0, 122)  # room for the legend
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("test accuracy, % (mean and standard deviation)", fontsize=9)
    axes.set_title("What a classifier reaches", fontsize=10)
    axes.legend(fontsize=8, ncols=2, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
