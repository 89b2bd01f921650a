from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from torch_geometric.data import Data

import plgc
from plgc.method.encoder import KINDS
from plgc.method.settings import (
    PLAIN,
    PRESETS,
    Branch,
    CondenseSettings,
    PseudoLabelSettings,
    SynthesisSettings,
    preset,
)
from plgc.runtime.errors import SettingError
from plgc.runtime.options import PRECISIONS, Compute
from plgc.sparse.inputs import SCALINGS

NAN = float("nan")
RATES = [-0.1, 1.0, 1.5, NAN]
BELOW_ONE = [0, -3]
NOT_POSITIVE = [0.0, -1e-3, NAN]
NEGATIVE = [-1, NAN]
TINY, ONE = [1e-6], [1]
TWO = (Branch(), Branch())


def cases(kind: type, values: dict[str, list]) -> list:
    return [
        pytest.param(kind, name, value, id=f"{kind.__name__}-{name}-{value}")
        for name, bad in values.items()
        for value in bad
    ]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *cases(
            Branch,
            {
                "kind": ["GCN", "transformer", ""],
                "hidden": [1, 0, -4],
                "width": [1, 0, -4],
                "layers": BELOW_ONE,
                "edge_drop": RATES,
                "feature_mask": RATES,
            },
        ),
        *cases(
            PseudoLabelSettings,
            {
                **dict.fromkeys(("learning_rate", "temperature", "epsilon", "tolerance"), NOT_POSITIVE),
                **dict.fromkeys(("round_epochs", "rounds", "max_iterations"), BELOW_ONE),
                **dict.fromkeys(("swap", "decorrelation", "refinements"), NEGATIVE),
                "precision": ["float16", ""],
            },
        ),
        *cases(SynthesisSettings, {"start": ["mean", ""], "steps": NEGATIVE, "learning_rate": NOT_POSITIVE}),
        *cases(CondenseSettings, {"scaling": ["L1", "rows"], "min_cluster": BELOW_ONE}),
    ],
)
def test_a_value_out_of_range_is_named(kind: type, name: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        kind(**{name: value})
    message = str(caught.value)
    assert (repr(value) if isinstance(value, str) else f" {value}:") in message
    assert name in message or isinstance(value, str)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *cases(
            Branch,
            {
                "kind": list(KINDS),
                "hidden": [2],
                "width": [2],
                "layers": [1],
                "edge_drop": [0.0, 0.99],
                "feature_mask": [0.0, 0.99],
            },
        ),
        *cases(
            PseudoLabelSettings,
            {
                **dict.fromkeys(("learning_rate", "temperature", "epsilon", "tolerance"), TINY),
                **dict.fromkeys(("round_epochs", "rounds", "max_iterations"), ONE),
                "refinements": [0],
                "precision": list(PRECISIONS),
            },
        ),
        *cases(SynthesisSettings, {"start": ["means", "nodes"], "steps": [0], "learning_rate": [1e-6]}),
        *cases(CondenseSettings, {"scaling": list(SCALINGS), "min_cluster": [1]}),
    ],
)
def test_values_at_the_edge_of_their_range_are_taken(kind: type, name: str, value: object) -> None:
    assert getattr(kind(**{name: value}), name) == value


def test_unknown_choices_say_what_there_is() -> None:
    for make, choices in [
        (lambda: Branch(kind="cnn"), KINDS),
        (lambda: CondenseSettings(scaling="l3"), SCALINGS),
        (lambda: SynthesisSettings(start="zeros"), ("means", "nodes")),
        (lambda: preset("best"), tuple(PRESETS)),
        (lambda: PseudoLabelSettings(precision="half"), PRECISIONS),
    ]:
        with pytest.raises(SettingError) as caught:
            make()
        assert all(choice in str(caught.value) for choice in choices)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingError, match="swap and decorrelation are both 0"):
        PseudoLabelSettings(swap=0.0, decorrelation=0.0)
    assert PseudoLabelSettings(swap=0.0, decorrelation=1.0).swap == 0
    assert PseudoLabelSettings(swap=1.0, decorrelation=0.0).decorrelation == 0
    with pytest.raises(SettingError, match="every_round is set, but steps is 0"):
        SynthesisSettings(every_round=True)
    assert SynthesisSettings(every_round=True, steps=1).every_round
    with pytest.raises(SettingError, match="encoders is empty"):
        CondenseSettings(encoders=())


def test_the_encoder_without_edges_comes_last() -> None:
    assert CondenseSettings(encoders=TWO).branches == (*TWO, PLAIN)
    assert CondenseSettings(encoders=TWO, plain=None).branches == TWO


def test_a_cpu_computes_in_float32_alone(demo_graph: Data, tmp_path: Path) -> None:
    words = "precision is bfloat16, but device is cpu: give a GPU"
    with pytest.raises(SettingError, match=words):
        plgc.condense(demo_graph, nodes=10, precision="bfloat16")
    with pytest.raises(SettingError, match=words):
        plgc.condense_sources([demo_graph], tmp_path / "out", nodes=10, precision="bfloat16")
    assert not (tmp_path / "out").exists()
    assert Compute("cuda:0", precision="bfloat16").precision == "bfloat16"


# Dictionaries


def altered(settings: object, **given: object) -> Any:
    """Settings of the same kind, none of whose values is the one it was, whatever fields there are."""
    choices = {"kind": KINDS, "start": ("means", "nodes"), "scaling": SCALINGS, "preset": ("mine", "yours")}
    choices["precision"] = PRECISIONS
    values = dict(given)
    for item in fields(settings):
        before = getattr(settings, item.name)
        if item.name not in given:
            match before:
                case bool():
                    values[item.name] = not before
                case str():
                    values[item.name] = next(choice for choice in choices[item.name] if choice != before)
                case int():
                    values[item.name] = before + 1
                case float():
                    values[item.name] = before / 2 or 0.5
                case _ if is_dataclass(before):
                    values[item.name] = altered(before)
        assert values[item.name] != before
    return replace(settings, **values)


def all_changed() -> CondenseSettings:
    first, other = altered(Branch()), altered(altered(Branch()))
    unlike = altered(PLAIN, kind="gcn")
    before = CondenseSettings(private=True)  # and then not: it goes with no max_share
    return altered(before, plain=replace(unlike, kind=PLAIN.kind), encoders=(first, other))


def plain(value: object) -> object:
    """Dataclasses and tuples as JSON would hold them, written without the package's help."""
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    "settings",
    [*PRESETS.values(), all_changed(), CondenseSettings("private", private=True)],
    ids=lambda settings: settings.preset,
)
def test_settings_survive_json(settings: CondenseSettings) -> None:
    text = json.dumps(settings.to_dict(), allow_nan=False)
    assert json.loads(text) == plain(settings)
    again = CondenseSettings.from_dict(json.loads(text))
    assert again == settings
    assert hash(again) == hash(settings)
    assert CondenseSettings.from_dict(settings.to_dict()) == settings


def test_missing_values_take_their_defaults() -> None:
    assert CondenseSettings.from_dict({}) == CondenseSettings()
    partial = CondenseSettings.from_dict({"synthesis": {"steps": 3}, "pseudo_labels": {"swap": 0.5}})
    assert partial.synthesis == replace(SynthesisSettings(), steps=3)
    assert partial.pseudo_labels == replace(PseudoLabelSettings(), swap=0.5)
    short = CondenseSettings.from_dict({"encoders": [{"kind": "gin"}]})
    assert short.encoders == (Branch(kind="gin"),)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"encoder": []}, "encoder"),
        ({"pseudo_labels": {"epsilom": 0.1}}, "epsilom"),
        ({"synthesis": {"step": 1}}, "step"),
        ({"encoders": [{"heads": 2}]}, "heads"),
        ({"plain": {"hiden": 2}}, "hiden"),
    ],
)
def test_an_unknown_key_is_refused_by_name(values: dict, key: str) -> None:
    with pytest.raises(SettingError, match=f"unknown setting '{key}': known are"):
        CondenseSettings.from_dict(values)


def test_a_dictionary_is_validated_and_left_alone() -> None:
    with pytest.raises(SettingError, match="epsilon is -1"):
        CondenseSettings.from_dict({"pseudo_labels": {"epsilon": -1}})
    values = json.loads(json.dumps(all_changed().to_dict()))
    before = json.dumps(values)
    CondenseSettings.from_dict(values)
    assert json.dumps(values) == before


# Presets


def test_both_presets_exist_under_their_own_name() -> None:
    assert set(PRESETS) >= {"default", "paper"}
    for name in PRESETS:
        assert preset(name).preset == name
    assert preset("default") == CondenseSettings()


def test_the_paper_preset_is_the_literal_method() -> None:
    """What the paper fixes: one encoder, ℓ_swap alone, hard targets, learned prototypes, both stages in turns."""
    paper = preset("paper")
    assert len(paper.branches) == 1
    assert paper.pseudo_labels.swap > 0
    assert paper.pseudo_labels.temperature == 1
    assert paper.pseudo_labels.decorrelation == 0
    assert paper.pseudo_labels.hard_targets
    assert paper.pseudo_labels.refinements == 0
    assert paper.synthesis.every_round


@pytest.mark.parametrize("limit", [{"min_cluster": 2}, {"max_share": 0.5}])
def test_limits_on_what_is_published_start_features_from_the_last_means(limit: dict[str, Any]) -> None:
    synthesis = replace(preset("paper"), **limit).synthesis
    assert (synthesis.start, synthesis.every_round) == ("means", False)
    assert synthesis.steps == preset("paper").synthesis.steps


@pytest.mark.parametrize("name", ["Paper", "", "fast"])
def test_an_unknown_preset_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingError, match=f"unknown preset '{name}'"):
        preset(name)


def test_settings_cannot_be_changed() -> None:
    for settings, name in [(preset("default"), "scaling"), (Branch(), "hidden"), (PseudoLabelSettings(), "swap")]:
        with pytest.raises(FrozenInstanceError):
            setattr(settings, name, getattr(settings, name))
