from __future__ import annotations

from dataclasses import dataclass

import pytest

from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges


@dataclass
class Settings:
    epochs: int = 1
    share: float = 0.0
    limit: float | None = None
    kind: str = "one"


RULES = {"epochs": "[1, inf)", "share": "[0, 1)", "limit": "(0, 1]", "kind": ("one", "two")}


@pytest.mark.parametrize("good", [{}, {"epochs": 10**9}, {"share": 0.999}, {"limit": 1.0}, {"kind": "two"}])
def test_bounds_are_kept(good: dict[str, object]) -> None:
    check_ranges(Settings(**good), RULES)  # pyright: ignore


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epochs": 0}, "epochs is 0: it must be at least 1"),
        ({"epochs": float("inf")}, "epochs is inf"),
        ({"share": 1.0}, "share is 1.0: it must be at least 0 and below 1"),
        ({"share": float("nan")}, "share is nan"),
        ({"limit": 0.0}, "limit is 0.0: it must be above 0 and at most 1"),
        ({"kind": "three"}, "kind is 'three': choose one, two"),
    ],
)
def test_the_first_value_out_of_range_is_named(bad: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=f"^{message}"):
        check_ranges(Settings(**bad), RULES)  # pyright: ignore
