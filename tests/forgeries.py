"""Files that are well-formed and wrong on purpose: strategies that follow the declared schemas (hypothesis).

A forged description is a valid one in which some fields have other values of the declared type, mostly within its
limits: such a file passes simple checks and reaches what comes after them. The checksum is right in all of them.
"""

from __future__ import annotations

import os
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

from plgc.runtime.container import container_bytes
from plgc.runtime.schema import LARGEST_FLOAT, LARGEST_WHOLE, Absent, Form, FreeText, Size, Within

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
EVIL = ("", "\x1b[2J", "\u202e", "=1+1", "<b>", "a" * 20_000, "../x", "\0", "x\ny", "default", "gcn", "learned")
WRONG = (None, True, -1, 0, 1.5, 2**63, 2**64, 10**30, 1e308, float("nan"), [], [1], {}, {"x": 1}, *EVIL)
LARGE = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e10, 1e15, 1e20, -1e30, 3.4e38, -3.4e38)


def tries(variable: str, usual: int, shared: int = 1) -> settings:
    """So many tries, the same ones every time; where the variable is set, as many as it says, and others every time."""
    given = os.environ.get(variable)
    count = int(given or usual) // shared + (shared > 1)
    fixed = given is None
    return settings(max_examples=count, deadline=None, database=None, derandomize=fixed, suppress_health_check=SLOW)


def values(hint: Any, rules: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Values of a declared type, at its limits and just beyond them more often than between."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values(arguments[0], (*rules, *hint.__metadata__))
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(part, rules) for part in arguments if part is not Absent))
    if origin is Literal:
        return st.sampled_from(arguments)
    if hint is type(None):
        return st.none()
    if hint is bool:
        return st.booleans()
    if hint in (int, float):
        return _numbers(hint, rules)
    if hint is str:
        return _texts(rules)
    if hint is Any:
        return st.recursive(st.sampled_from((*WRONG[:10], "x")), lambda part: st.lists(part, max_size=3), max_leaves=4)
    if origin in (tuple, list):
        return st.lists(values(arguments[0]), max_size=5)
    if origin is dict:
        return st.dictionaries(_texts(()), values(arguments[1]), max_size=3)
    if is_dataclass(hint):
        return record(typing.cast(type, hint))
    raise AssertionError(f"no strategy for {hint}")


def record(kind: type) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects of a declared dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return st.fixed_dictionaries({item.name: values(hints[item.name]) for item in fields(kind)})


@st.composite
def forged(draw: st.DrawFn, kind: type, valid: dict[str, Any]) -> dict[str, Any]:
    """A valid description with one to three fields changed, at any depth of what is declared."""
    found = dict(valid)
    hints = typing.get_type_hints(kind, include_extras=True)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([item.name for item in fields(kind)]))
        inner = _dataclass(hints[name])
        before = found.get(name)
        if draw(st.integers(0, 19)) == 0:
            found[name] = draw(st.sampled_from(WRONG))
        elif inner is not None and isinstance(before, dict):
            found[name] = draw(forged(inner, before))
        elif isinstance(before, dict) and before and draw(st.booleans()):
            key = draw(st.sampled_from(sorted(before)))
            found[name] = {**before, key: draw(_like(before[key]))}
        elif isinstance(before, list) and before and draw(st.booleans()):
            place = draw(st.integers(0, len(before) - 1))
            part = before[place]
            changed = draw(_forged_item(hints[name], part))
            found[name] = [*before[:place], changed, *before[place + draw(st.integers(0, 1)) :]]
        else:
            found[name] = draw(values(hints[name]))
    return found


@st.composite
def forged_tensors(draw: st.DrawFn, valid: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with numbers in one of them changed to others that are numbers still."""
    found = {name: tensor.clone() for name, tensor in valid.items()}
    name = draw(st.sampled_from(sorted(found)))
    tensor = found[name].reshape(-1)
    limits = torch.finfo(tensor.dtype) if tensor.is_floating_point() else torch.iinfo(tensor.dtype)
    some = LARGE if tensor.is_floating_point() else (0, 1, -1, 2**31, 2**62, limits.min, limits.max)
    value = draw(st.sampled_from([value for value in some if limits.min <= value <= limits.max]))
    if not tensor.numel():
        return found
    if draw(st.booleans()):
        tensor[:] = value
    else:
        tensor[draw(st.integers(0, tensor.numel() - 1))] = value
    found[name] = tensor.reshape(valid[name].shape)
    return found


@st.composite
def forged_file(draw: st.DrawFn, kind: type, tensors: dict[str, Tensor], description: dict[str, Any]) -> bytes:
    """A whole file, with the right checksum: another description, other numbers, or both."""
    what = draw(st.integers(0, 3))
    parts = draw(forged_tensors(tensors)) if what == 0 else tensors
    about = description if what == 0 else draw(forged(kind, description))
    plain = {name: value for name, value in about.items() if name != "checksum"}
    try:
        return container_bytes(parts, {**plain, "format": description["format"]})
    except UnicodeEncodeError:  # halves of pairs cannot even be written
        return container_bytes(parts, {**description, "seed": 2**63})


def _numbers(hint: type, rules: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    bounds = [rule for rule in rules if isinstance(rule, Within)]
    most = LARGEST_WHOLE if hint is int else LARGEST_FLOAT
    low, high = (bounds[0].least, bounds[0].most or most) if bounds else (-most, most)
    near = [low, low + 1, high, high - 1, low - 1, (low + high) / 2, 0, 1, 2, 3]
    if hint is int:
        return st.one_of(st.sampled_from([int(value) for value in near]), st.integers(int(low), int(high)))
    return st.one_of(st.sampled_from(near), st.floats(low, high, allow_nan=False))


def _texts(rules: tuple[Any, ...]) -> st.SearchStrategy[str]:
    free = any(isinstance(rule, FreeText) for rule in rules)
    form = next((rule.pattern for rule in rules if isinstance(rule, Form)), None)
    size = next((rule for rule in rules if isinstance(rule, Size)), Size(0, 30))
    if form is not None:
        return st.one_of(st.from_regex(form, fullmatch=True), st.sampled_from(EVIL))
    text = st.text(min_size=size.least, max_size=min(size.most, 30))
    return text if free else st.one_of(text, st.sampled_from(EVIL))


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the kind that was there, or of a wrong one."""
    if isinstance(value, bool) or value is None or isinstance(value, str | dict):
        return st.sampled_from(WRONG)
    if isinstance(value, list):
        return st.one_of(st.sampled_from(WRONG), st.just(value[:-1]), st.just(value * 2), st.just(value[::-1]))
    if isinstance(value, float):
        return st.sampled_from((*LARGE, *WRONG))
    return st.sampled_from((0, 1, value + 1, -value, 2**31, 2**53, *WRONG))


def _forged_item(hint: Any, item: Any) -> st.SearchStrategy[Any]:
    part = get_args(hint.__origin__ if get_origin(hint) is Annotated else hint)
    inner = _dataclass(part[0]) if part else None
    return forged(inner, item) if inner is not None and isinstance(item, dict) else _like(item)


def _dataclass(hint: Any) -> type | None:
    """The dataclass in a type, through ``Annotated`` and ``| None``."""
    if is_dataclass(hint):
        return typing.cast(type, hint)
    inner = (_dataclass(part) for part in get_args(hint)[:2] if get_origin(hint) is not dict)
    return next((found for found in inner if found is not None), None) if get_origin(hint) is not tuple else None


def read_back(content: bytes) -> dict[str, Tensor]:
    """The tensors of a file."""
    from safetensors.torch import load

    return {name: tensor.clone() for name, tensor in load(content).items()}


def all_finite(tensors: dict[str, Tensor]) -> bool:
    """Whether every number is one."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
