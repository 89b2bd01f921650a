"""Attribute inference: can words of a known member be read off the file?

The attacker knows half of the words of some nodes, and all of those of the others. What the file has and the known rows
do not explain are hidden words: the residual X' − WᵀC of the linear inversion, looked at where a node has weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.candidates import Candidates, Combinations, dense_rows
from plgc.evaluation.membership.inversion import invert
from plgc.evaluation.membership.measures import true_positive_rate
from plgc.evaluation.membership.words import words_and_usual

TARGETS = 100  # nodes of each kind that are attacked at a time: the file explains the rest


@torch.no_grad()
def infer_words(features: Tensor, candidates: Candidates, members: Tensor, *, seed: int = 0) -> dict[str, float]:
    """Hide half of the words of some members and of as many others, and guess them.

    Two guesses are tried: the residual at the rows that a node has weight in, and the synthetic row most similar to
    what is known of it. The second also works for nodes that were not in the graph: that is what the file tells of
    anybody.

    Args:
        features: X', [K, f'].
        candidates: all nodes.
        members: which of them the file was made from, bool [N].
        seed: of the nodes and of the words that are hidden.

    Returns:
        Of the guess that does best on members, compared with others: ``auc``, how well hidden words are told from
        words that a node does not have; ``found``, the share of hidden words found at 1 % false alarms; ``auc_others``
        and ``found_others``, the same of nodes that were not in the graph.
    """
    generator = torch.Generator().manual_seed(seed)
    words, usual = words_and_usual(candidates.own.x)
    chosen = [_drawn(kind, generator) for kind in (members, ~members)]
    targets = torch.cat(chosen).to(words.device)
    coin = torch.rand(len(targets), words.shape[1], generator=generator).to(words.device) < 0.5
    rows = dense_rows(candidates.own.x).clone()
    rows[targets] = torch.where(coin, usual, rows[targets])
    known = Combinations(candidates.with_rows(rows))
    published = features.to(words.device)
    found = invert(published, known)
    unexplained = published - known.combine(found.weights)
    alike = known.correlate(F.normalize(published))[targets].argmax(1)
    told = candidates.words(published)
    guesses = {
        "residual": found.weights[targets] @ candidates.words(unexplained),
        "nearest": told[alike],
    }
    asked, truth = coin, words[targets]
    inside = torch.arange(len(targets), device=words.device) < len(chosen[0])
    results = [
        _told(guess[inside][asked[inside]], truth[inside][asked[inside]])
        | _told(guess[~inside][asked[~inside]], truth[~inside][asked[~inside]], "_others")
        for guess in guesses.values()
    ]
    return max(results, key=lambda result: result["auc"] - result["auc_others"])


def _told(guess: Tensor, truth: Tensor, suffix: str = "") -> dict[str, float]:
    """How well guesses tell words from others; those of guessing where there are none of a kind, as in small graphs."""
    if bool(truth.all()) or not bool(truth.any()):
        return {f"auc{suffix}": 0.5, f"found{suffix}": 0.0}
    scores, words = guess.cpu(), truth.cpu()
    return {f"auc{suffix}": auroc(scores, words), f"found{suffix}": true_positive_rate(scores, words)}


def _drawn(kind: Tensor, generator: torch.Generator) -> Tensor:
    """A few of the marked nodes."""
    nodes = kind.nonzero().flatten()
    return nodes[torch.randperm(len(nodes), generator=generator)[: min(TARGETS, max(1, len(nodes) // 10))]]
