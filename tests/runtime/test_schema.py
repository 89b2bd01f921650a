"""What is declared is checked: types, ranges, lengths, forms, unknown and missing keys, and what a schema knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from plgc.runtime.schema import (
    Count,
    Digest,
    Form,
    FreeText,
    SchemaError,
    Since,
    Size,
    Within,
    named_tensors,
    read,
)


@dataclass(frozen=True)
class Inner:
    width: Annotated[int, Within(1, 9)]
    share: Annotated[float, Within(0, 1, above=True)] = 0.5


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, Form(r"[a-z]+", "small letters")]
    inner: Inner
    several: tuple[Inner, ...] = ()
    few: Annotated[list[int], Size(1, 2)] = field(default_factory=lambda: [1])
    by_name: dict[str, tuple[float, ...]] = field(default_factory=dict)
    maybe: Count | None = None
    way: Literal["l1", "none"] = "l1"
    flag: bool = False
    text: str = ""
    said: Annotated[str, FreeText(), Size(0, 5)] = ""
    plain: Any = None
    either: dict[str, Any] | tuple[int, ...] | None = None
    later: Annotated[int, Since(2)] = 0
    until: Annotated[int, Since(1, last=1)] = 0

    def __post_init__(self) -> None:
        if self.flag and self.maybe is None:
            raise ValueError("flag goes with maybe")


VALID: dict[str, Any] = {"name": "abc", "inner": {"width": 3}, "later": 7}


def test_what_is_as_declared_is_built() -> None:
    found = read(Outer, {**VALID, "several": [{"width": 1, "share": 1}], "by_name": {"x": [1, 2.5]}}, schema=2)
    assert found == Outer("abc", Inner(3), (Inner(1, 1.0),), by_name={"x": (1.0, 2.5)}, later=7)
    assert isinstance(found.several[0].share, float)
    assert read(Outer, {**VALID, "either": [1, 2]}, schema=2).either == (1, 2)
    assert read(Outer, {**VALID, "either": {"a": [None, {"b": True}]}}, schema=2).either == {"a": [None, {"b": True}]}
    assert read(Outer, {**VALID, "said": "\x1b\u202e"}, schema=2).said == "\x1b\u202e"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "ABC"}, "name is 'ABC': small letters are possible"),
        ({"name": 7}, "name is 7: a text is needed"),
        ({"name": "a\n"}, "name is"),
        ({"inner": 3}, "inner is 3: an object is needed"),
        ({"inner": {}}, "inner.width is missing"),
        ({"inner": {"width": 10}}, "inner.width is 10: it must be at least 1 and at most 9"),
        ({"inner": {"width": 3.0}}, "inner.width is 3.0: a whole number is needed"),
        ({"inner": {"width": True}}, "inner.width is True: a whole number is needed"),
        ({"inner": {"width": 3, "share": 0}}, "inner.share is 0: it must be above 0 and at most 1"),
        ({"inner": {"width": 3, "share": float("nan")}}, "inner.share is nan"),
        ({"inner": {"width": 3, "depth": 3}}, "inner.'depth' is unknown: known are width, share"),
        ({"several": [{"width": 1}, {"width": "1"}]}, r"several\[1\].width is '1'"),
        ({"several": {"width": 1}}, "several is {'width': 1}: a list is needed"),
        ({"few": []}, "few has 0 entries: 1 to 2 are possible"),
        ({"by_name": {"x": [1e39]}}, r"by_name.x\[0\] is 1e\+39"),
        ({"by_name": {"\x1b": []}}, "a name in by_name is .*: only printable characters"),
        ({"maybe": -1}, "maybe is -1: it must be at least 0"),
        ({"maybe": 2**60}, "maybe is"),
        ({"way": "l2"}, "way is 'l2': choose l1, none"),
        ({"way": None}, "way is None"),
        ({"flag": 1}, "flag is 1: true or false is needed"),
        ({"flag": True}, "flag goes with maybe"),
        ({"text": "x" * 10_001}, "text has 10001 characters"),
        ({"text": "\u202e"}, "only printable characters"),
        ({"said": "\ud800"}, "it cannot be written as UTF-8"),
        ({"said": "123456"}, "said has 6 characters: 0 to 5"),
        ({"plain": float("inf")}, "plain is inf"),
        ({"plain": 2**64}, "plain is 18446"),
        ({"plain": {"a": ["\0"]}}, r"plain.a\[0\] is"),
        ({"either": "x"}, "either is 'x'"),
        ({"who": 1}, "'who' is unknown"),
        ({"until": 1}, "'until' is unknown"),
    ],
)
def test_what_is_not_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read(Outer, {**VALID, **change}, schema=2)


def test_fields_belong_to_their_schemas() -> None:
    with pytest.raises(SchemaError, match="'later' is unknown"):
        read(Outer, VALID, schema=1)
    with pytest.raises(SchemaError, match="later is missing"):
        read(Outer, {"name": "abc", "inner": {"width": 3}}, schema=2)
    with pytest.raises(SchemaError, match="until is missing"):
        read(Outer, {"name": "abc", "inner": {"width": 3}}, schema=1)


def test_depth_and_messages_are_bounded() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(SchemaError, match="nested more than"):
        read(Outer, {**VALID, "plain": deep}, schema=2)
    with pytest.raises(SchemaError) as caught:
        read(Outer, {**VALID, "name": "A" * 9000, "x" * 9000: 1}, schema=2)
    assert len(str(caught.value)) < 1000


def test_digests_and_tensors() -> None:
    @dataclass(frozen=True)
    class File:
        sha256: Digest

    globals()["File"] = File
    assert read(File, {"sha256": "ab" * 32}).sha256 == "ab" * 32
    for wrong in ("AB" * 32, "ab" * 31, "ab" * 32 + "\n"):
        with pytest.raises(SchemaError, match="64 hexadecimal digits"):
            read(File, {"sha256": wrong})
    assert named_tensors({"a": 1, "b": 2}, "b", "a") == [2, 1]
    with pytest.raises(SchemaError, match="it has the tensors a, where b are needed"):
        named_tensors({"a": 1}, "b")
