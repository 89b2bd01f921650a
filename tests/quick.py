"""Settings that condense a small graph within a fraction of a second."""

from __future__ import annotations

from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, Rung


def quick(*widths: int, hidden: int = 32, rounds: int = 2, epochs: int = 5) -> CondenseSettings:
    """One encoder for each width, trained for some rounds of a few epochs."""
    branches = tuple(Branch(hidden=hidden, width=width) for width in widths)
    return CondenseSettings(
        ladder=(Rung(branches),), pseudo_labels=PseudoLabelSettings(max_rounds=rounds, round_epochs=epochs)
    )
