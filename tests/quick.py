"""Settings that condense a small graph within a fraction of a second."""

from __future__ import annotations

from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings

PLAIN = Branch(kind="mlp", hidden=16, width=12, edge_drop=0.0, feature_mask=0.5)  # a small channel without edges


def quick(
    *widths: int, hidden: int = 32, rounds: int = 2, epochs: int = 5, plain: Branch | None = None
) -> CondenseSettings:
    """One encoder for each width, trained for some rounds of a few epochs; by default one channel."""
    branches = tuple(Branch(hidden=hidden, width=width) for width in widths)
    return CondenseSettings(
        encoders=branches,
        plain=plain,
        pseudo_labels=PseudoLabelSettings(rounds=rounds, round_epochs=epochs),
    )
