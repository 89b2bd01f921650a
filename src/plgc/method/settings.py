"""Settings of every stage as frozen, validated dataclasses, and the two presets that ship.

``default`` is the best recipe we know; ``paper`` is the method as the paper states it, letter by letter. Neither has
settings per dataset: what has to fit the graph (row scaling, encoders, length of training) is read from the graph.
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
class Rung:
    """One choice of encoders, for graphs on which twin encoders agree at least this much."""

    branches: tuple[Branch, ...] = (Branch(),)
    agreement: float = 0.0

    def __post_init__(self) -> None:
        _require(len(self.branches) >= 1, "branches is empty: stage I needs at least one encoder")
        check_ranges(self, {"agreement": "[0, 1]"})


@dataclass(frozen=True)
class PseudoLabelSettings:
    """Stage I: encoders θ', prototypes Ỹ and assignment Q_T.

    Attributes:
        learning_rate: of Adam, for encoders and prototypes.
        round_epochs: epochs of a round, after which the pseudo-labels are read.
        max_rounds: upper limit on the rounds.
        min_gain: the label-free stopping rule: stop when a round raises the share of the embeddings' variance that
            the pseudo-labels explain by less than this. 0 never stops early.
        loss_stride: n, where the losses see every n-th node in an epoch. Graphs of fewer than n · 1,024 nodes are seen
            whole, and of large ones at most 32,768 nodes.
        swap: weight of the swapped-prediction loss ℓ_swap.
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
    max_rounds: int = 10
    min_gain: float = 0.015
    loss_stride: int = 2
    swap: float = 1.0
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
                "round_epochs max_rounds max_iterations loss_stride": "[1, inf)",
                "min_gain swap decorrelation refinements": "[0, inf)",
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


# Settled on validation labels of Cora, Citeseer, Pubmed, Photo and Coauthor CS: where twins agree, one wide encoder
# with weak augmentation is best; where they do not, narrow ones with strong augmentation are (docs/method.md).
STRICT = (
    Branch(hidden=128, width=128, edge_drop=0.5, feature_mask=0.3),
    Branch(hidden=128, width=128, edge_drop=0.5, feature_mask=0.5),
)
DEFAULT_LADDER = (
    Rung((Branch(),), agreement=0.91),
    Rung((Branch(width=128), *STRICT), agreement=0.82),
    Rung(STRICT, agreement=0.0),
)
PLAIN = Branch(kind=EDGE_FREE, hidden=512, width=512, edge_drop=0.0, feature_mask=0.5)


@dataclass(frozen=True)
class CondenseSettings:
    """Everything :func:`plgc.condense` can be told, apart from the size and the seed.

    Attributes:
        preset: the name of these settings.
        scaling: row scaling of the features: ``l1``, ``l2``, ``none``, or ``auto`` to choose by their values.
        plain: the encoder of the channel ``plain``, which is trained beside those of the ladder and sees no edges: a
            branch of kind ``mlp``. None for one channel, with edges.
        ladder: the label-free model choice. Twin encoders that differ only in their random start are trained for
            ``probe_epochs``, and the first rung whose ``agreement`` theirs reaches is used. Where twins disagree they
            learn noise, and narrower encoders with stronger augmentation learn more. One rung: no choice, no twins.
        probe: what the twins are.
        probe_epochs: how long they are trained before they are compared.
        pseudo_labels: stage I.
        synthesis: stage II.
        min_cluster: fewest original nodes a synthetic node may represent; smaller clusters are merged at the end of
            stage I.
        max_share: largest share of a value of X' that may come from one original node; other values are set to 0. 1
            leaves all as they are.

    Where either asks for more than the default, X' starts from the last round's cluster means, whatever ``synthesis``
    says: a random node's features would be those of one node alone, and so might be the mean of an earlier cluster.
    """

    preset: str = "default"
    scaling: str = "auto"
    ladder: tuple[Rung, ...] = DEFAULT_LADDER
    plain: Branch | None = PLAIN
    probe: Branch = field(default_factory=lambda: Branch(hidden=128, width=128))
    probe_epochs: int = 40
    pseudo_labels: PseudoLabelSettings = field(default_factory=PseudoLabelSettings)
    synthesis: SynthesisSettings = field(default_factory=SynthesisSettings)
    min_cluster: int = 1
    max_share: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, {"min_cluster probe_epochs": "[1, inf)", "max_share": "(0, 1]", "scaling": SCALINGS})
        if self.min_cluster > 1 or self.max_share < 1:
            object.__setattr__(self, "synthesis", replace(self.synthesis, start="means", every_round=False))
        if self.plain is not None:
            found = self.plain.kind
            _require(found == EDGE_FREE, f"plain is an encoder of kind {found}: it sees no edges, so give {EDGE_FREE}")
        _require(len(self.ladder) >= 1, "ladder is empty: name at least one rung of encoders")
        _require(self.ladder[-1].agreement == 0.0, "the ladder's last rung must have agreement 0, to catch every graph")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and TOML: the same before and after a trip through a file."""
        return json.loads(json.dumps(asdict(self)))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> CondenseSettings:
        """Read back what :meth:`to_dict` gave; missing values take their defaults, unknown ones are refused."""
        values = dict(values)
        if "ladder" in values:
            values["ladder"] = tuple(_build_rung(rung) for rung in values["ladder"])
        for name, default in (("probe", CondenseSettings().probe), ("plain", PLAIN)):
            if values.get(name) is not None:
                values[name] = _build(Branch, {**asdict(default), **values[name]})
        values["pseudo_labels"] = _build(PseudoLabelSettings, values.get("pseudo_labels", {}))
        values["synthesis"] = _build(SynthesisSettings, values.get("synthesis", {}))
        return _build(CondenseSettings, values)


def _build_rung(values: Mapping[str, Any]) -> Rung:
    values = dict(values)
    if "branches" in values:
        values["branches"] = tuple(_build(Branch, branch) for branch in values["branches"])
    return _build(Rung, values)


PAPER = CondenseSettings(
    preset="paper",
    ladder=(Rung((Branch(),)),),
    plain=None,
    pseudo_labels=PseudoLabelSettings(
        min_gain=0.0, loss_stride=1, decorrelation=0.0, temperature=1.0, hard_targets=True, refinements=0
    ),
    synthesis=SynthesisSettings(start="nodes", steps=100, learning_rate=0.1, every_round=True),
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
