"""Settings of every stage as frozen, validated dataclasses, and the two presets that ship.

``default`` is the best recipe we know; ``paper`` is the method as the paper states it, with what it leaves open settled
by us. Neither has settings per dataset: what has to fit the graph (row scaling) is read from its features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from plgc.method.encoder import EDGE_FREE, KINDS
from plgc.runtime.errors import SettingError
from plgc.runtime.options import PRECISIONS, check_ranges
from plgc.sparse.inputs import SCALINGS

T = TypeVar("T")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)


@dataclass(frozen=True)
class Branch:
    """One encoder of stage I and the strength of its two augmentations."""

    kind: str = "gcn"
    hidden: int = 256
    width: int = 256
    layers: int = 2
    edge_drop: float = 0.4
    feature_mask: float = 0.1

    def __post_init__(self) -> None:
        check_ranges(
            self,
            {"kind": KINDS, "hidden width": "[2, inf)", "layers": "[1, inf)", "edge_drop feature_mask": "[0, 1)"},
        )


@dataclass(frozen=True)
class PseudoLabelSettings:
    """Stage I: encoders θ', prototypes Ỹ and assignment Q_T.

    Attributes:
        learning_rate: of Adam, for encoders and prototypes.
        round_epochs: epochs of a round, after which the pseudo-labels are read.
        rounds: how many.
        loss_stride: n, where the losses see every n-th node in an epoch. Graphs of fewer than n · 1,024 nodes are seen
            whole, and of large ones at most 32,768 nodes.
        swap: weight of the swapped-prediction loss ℓ_swap; 0 by default: beside decorrelation it was worth nothing
            (docs/method.md). Without it the encoders do not depend on K.
        decorrelation: weight of the decorrelation term on standardised embeddings; 0 leaves it (and the
            standardisation) out.
        temperature: of the softmax in ℓ_swap.
        balanced: equal shares of the nodes for all prototypes (Sinkhorn, eq. 5). False: every node goes to its nearest
            prototypes, with the weights softmax(S / ε): soft k-means on the sphere, and k-means where ε is small.
        epsilon: ε of the assignment.
        tolerance: Sinkhorn stops when no prototype's share is off by more than this fraction.
        max_iterations: cap on Sinkhorn's iterations.
        hard_targets: round the assignment to one-hot inside ℓ_swap.
        refinements: alternations of assignment and assignment means that turn prototypes into pseudo-labels; 0 keeps
            the learned prototypes.
        precision: of the encoders' products, ``float32`` or, on a GPU, ``bfloat16``: half the memory moved, sums in
            float32. The losses, the assignment and stage II are always float32.
    """

    learning_rate: float = 1e-3
    round_epochs: int = 10
    rounds: int = 6
    loss_stride: int = 2
    swap: float = 0.0
    decorrelation: float = 1e-3
    temperature: float = 0.1
    balanced: bool = True
    epsilon: float = 0.05
    tolerance: float = 0.05
    max_iterations: int = 20
    hard_targets: bool = False
    refinements: int = 10
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            {
                "learning_rate temperature epsilon tolerance": "(0, inf)",
                "round_epochs rounds max_iterations loss_stride": "[1, inf)",
                "swap decorrelation refinements": "[0, inf)",
                "precision": PRECISIONS,
            },
        )
        _require(self.swap > 0 or self.decorrelation > 0, "swap and decorrelation are both 0: nothing would be learned")

    def sinkhorn_rules(self, temperature: float = 1.0) -> dict[str, Any]:
        """Keywords of :func:`plgc.method.sinkhorn.sinkhorn`, for scores that have been divided by a temperature."""
        return {
            "epsilon": self.epsilon / temperature,
            "tolerance": self.tolerance,
            "max_iterations": self.max_iterations if self.balanced else 0,  # none: the softmax of the scores
        }


@dataclass(frozen=True)
class SynthesisSettings:
    """Stage II: synthetic features X'.

    Attributes:
        start: ``means`` starts from assignment means (on the data's manifold): of Â²X, or, where there is a channel
            without edges too, half of X and half of Â²X; ``nodes`` from the features of random nodes.
        steps: gradient steps on the distance of the encoded X' to Ỹ. None by default: from assignment means they bought
            nothing on validation nodes.
        learning_rate: of those steps, relative to the root mean square of X'.
        every_round: alternate, as the paper does: take the steps after every round of stage I, from the X' of the round
            before. By default X' is made once, after the last round.
    """

    start: str = "means"
    steps: int = 0
    learning_rate: float = 1e-2
    every_round: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, {"start": ("means", "nodes"), "steps": "[0, inf)", "learning_rate": "(0, inf)"})
        _require(
            self.steps > 0 or not self.every_round,
            "every_round is set, but steps is 0: X' would stay as it started in the first round, so give steps",
        )


# One recipe for every graph, settled on validation nodes of 18 graphs (docs/method.md): an encoder with weak and one
# with strong augmentation, and one that sees no edges.
ENCODERS = (Branch(), Branch(edge_drop=0.5, feature_mask=0.3))
PLAIN = Branch(kind=EDGE_FREE, hidden=512, width=512, edge_drop=0.0, feature_mask=0.5)
PRIVATE_MIN_CLUSTER = 5  # nodes of a cluster, at least, in a private release


@dataclass(frozen=True)
class CondenseSettings:
    """Everything :func:`plgc.condense` can be told, apart from the size and the seed.

    Attributes:
        preset: the name of these settings.
        scaling: row scaling of the features: ``l1``, ``l2``, ``none``, or ``auto`` to choose by their values.
        encoders: those of the channel ``edges``.
        plain: the encoder of the channel ``plain``, which is trained beside them and sees no edges: a branch of kind
            ``mlp``. None for one channel, with edges.
        pseudo_labels: stage I.
        synthesis: stage II.
        min_cluster: fewest original nodes a synthetic node may represent; smaller clusters are merged at the end of
            stage I.
        max_share: largest share of a value of X' that may come from one original node; other values are set to 0. 1
            leaves all as they are.
        private: publish sums over many nodes with noise, and nothing else (:mod:`plgc.method.private`), instead
            of what ``synthesis`` makes. Clusters then have at least 5 nodes.

    With ``min_cluster`` above 1 or ``max_share`` below, X' starts from the last round's cluster means, whatever
    ``synthesis`` says: a random node's features would be those of one node alone, and so might be the mean of an
    earlier cluster.
    """

    preset: str = "default"
    scaling: str = "auto"
    encoders: tuple[Branch, ...] = ENCODERS
    plain: Branch | None = PLAIN
    pseudo_labels: PseudoLabelSettings = field(default_factory=PseudoLabelSettings)
    synthesis: SynthesisSettings = field(default_factory=SynthesisSettings)
    min_cluster: int = 1
    max_share: float = 1.0
    private: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, {"min_cluster": "[1, inf)", "max_share": "(0, 1]", "scaling": SCALINGS})
        if self.private:
            _require(
                self.max_share == 1,
                f"max_share is {self.max_share:g}, but a private release has a bound of its own: leave max_share out, "
                "or turn private off (--no-private), which several sources have by default",
            )
            object.__setattr__(self, "min_cluster", max(PRIVATE_MIN_CLUSTER, self.min_cluster))
            object.__setattr__(self, "synthesis", SynthesisSettings())
        elif self.min_cluster > 1 or self.max_share < 1:
            object.__setattr__(self, "synthesis", replace(self.synthesis, start="means", every_round=False))
        if self.plain is not None:
            found = self.plain.kind
            _require(found == EDGE_FREE, f"plain is an encoder of kind {found}: it sees no edges, so give {EDGE_FREE}")
        _require(len(self.encoders) >= 1, "encoders is empty: stage I needs at least one")

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Every encoder of stage I, that of the channel ``plain`` last."""
        return self.encoders if self.plain is None else (*self.encoders, self.plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and TOML: the same before and after a trip through a file."""
        return json.loads(json.dumps(asdict(self)))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> CondenseSettings:
        """Read back what :meth:`to_dict` gave; missing values take their defaults, unknown ones are refused."""
        values = dict(values)
        if "encoders" in values:
            values["encoders"] = tuple(_build(Branch, branch) for branch in values["encoders"])
        if values.get("plain") is not None:
            values["plain"] = _build(Branch, {**asdict(PLAIN), **values["plain"]})
        values["pseudo_labels"] = _build(PseudoLabelSettings, values.get("pseudo_labels", {}))
        values["synthesis"] = _build(SynthesisSettings, values.get("synthesis", {}))
        return _build(CondenseSettings, values)


# The paper's: one encoder with edges and one channel, ℓ_swap alone with one-hot targets at temperature 1, learned
# prototypes, stage II after every round of stage I, and no features beside the rebuilt embedding (plgc.reconstruct).
# Ours, where the paper is silent, settled on validation nodes of Cora and Citeseer with all labels and with three:
# width, strength of augmentation, ε, epochs and rounds, X' started from assignment means, its steps and their length.
PAPER = CondenseSettings(
    preset="paper",
    encoders=(Branch(hidden=1024, width=1024, edge_drop=0.4, feature_mask=0.3),),
    plain=None,
    pseudo_labels=PseudoLabelSettings(
        rounds=5, loss_stride=1, swap=1.0, decorrelation=0.0, temperature=1.0, hard_targets=True, refinements=0
    ),
    synthesis=SynthesisSettings(steps=20, every_round=True),
)
PRESETS = {"default": CondenseSettings(), "paper": PAPER}


def preset(name: str) -> CondenseSettings:
    """The settings of this name."""
    _require(name in PRESETS, f"unknown preset {name!r}: choose {' or '.join(PRESETS)}")
    return PRESETS[name]


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    known = {item.name for item in fields(kind)}  # pyright: ignore[reportArgumentType]
    unknown = sorted(set(values) - known)
    _require(not unknown, f"unknown setting {', '.join(map(repr, unknown))}: known are {', '.join(sorted(known))}")
    return kind(**values)
