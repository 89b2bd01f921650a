"""Tensors in their smallest form: what comes back is what was stored, and what does not fit is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from forgeries import tries
from plgc.artifact.storage import LEVELS, of_float8, pack, to_float8, unpack

COUNTS = {"counts": torch.tensor([3, 0, 250])}


def float8(exponent: int) -> list[float]:
    """Every size of a float8, from its definition: a sign, three bits of exponent, four of mantissa."""
    return [
        (m if e == 0 else (16 + m) * 2.0 ** (e - 1)) * 2.0**exponent for e, m in itertools.product(range(8), range(16))
    ]


def stored(features: Tensor, **others: Tensor) -> dict[str, Tensor]:
    return pack({"features": features, **COUNTS, **others})


def size(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def test_a_byte_means_what_the_module_says() -> None:
    for exponent in (-130, -3, 0, 100):
        codes = np.arange(256, dtype=np.uint8)[None]
        values = of_float8(codes, np.array([exponent], dtype=np.int16))[0]
        sizes = np.array(float8(exponent), dtype=np.float32)
        np.testing.assert_array_equal(values, np.concatenate([sizes, -sizes]))


def test_every_value_becomes_the_nearest() -> None:
    values = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32) * np.array(
        [[1e-20], [0.1], [9], [1e30]]
    )
    codes, exponents = to_float8(values)
    for row, found, exponent in zip(values, of_float8(codes, exponents), exponents, strict=True):
        sizes = np.array(float8(int(exponent)))
        nearest = sizes[np.abs(sizes[None] - np.abs(row[:, None])).argmin(1)] * np.sign(row)
        np.testing.assert_array_equal(found, nearest.astype(np.float32))
        large = np.abs(row) > np.abs(row).max() / 100
        assert (np.abs(found - row) <= np.abs(row) / 32)[large].all()


@given(arrays.arrays(np.float32, (3, 9), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
@tries("PLGC_FORGERIES", 100)
def test_any_matrix_comes_back(values: np.ndarray) -> None:
    matrix = torch.from_numpy(values)
    assert torch.equal(unpack(stored(matrix))["features"], matrix)
    rounded = torch.from_numpy(of_float8(*to_float8(values)))
    again = stored(rounded)
    assert torch.equal(unpack(again)["features"], rounded)
    assert size(again) <= size(stored(matrix)) + 6


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        (torch.linspace(-1, 1, 3000).reshape(3, 1000), torch.float32, set()),
        (torch.linspace(-1, 1, 3000).reshape(3, 1000).half().float(), torch.float16, set()),
        (torch.arange(3000).reshape(3, 1000) % 32 * 1.0, torch.uint8, {"features_exponent"}),
        (torch.eye(3, 1000) / 3, torch.float32, {"features_where"}),
        (torch.eye(3, 1000) / 2, torch.uint8, {"features_where", "features_exponent"}),
        (torch.zeros(3, 1000), torch.uint8, {"features_where", "features_exponent"}),
    ],
)
def test_the_form_is_the_smallest_that_holds_every_value(values: Tensor, kind: torch.dtype, names: set[str]) -> None:
    found = stored(values)
    assert found["features"].dtype == kind
    assert set(found) == {"features", "counts"} | names
    assert torch.equal(unpack(found)["features"], values)
    assert unpack(found)["features"].dtype == torch.float32


def test_whole_numbers_have_the_smallest_type() -> None:
    edges = torch.tensor([[0, 1], [300, 2]])
    found = stored(torch.ones(3, 2), labels=torch.tensor([-1, 0, 1]), edge_index=edges, edge_weight=torch.ones(2) / 3)
    kinds = {name: found[name].dtype for name in ("counts", "labels", "edge_index", "edge_weight")}
    small = torch.int16
    assert kinds == {"counts": torch.uint8, "labels": small, "edge_index": small, "edge_weight": torch.float32}
    back = unpack(found)
    assert (back["counts"].dtype, back["edge_index"].dtype) == (torch.int64, torch.int64)
    assert torch.equal(back["edge_index"], edges)
    assert stored(torch.ones(3, 2), labels=torch.tensor([2**40, 0, 1]))["labels"].dtype == torch.int64
    soft = stored(torch.ones(3, 2), labels=torch.full((3, 2), 0.5))["labels"]
    assert (soft.dtype, unpack({"labels": soft, **COUNTS})["labels"].dtype) == (torch.float16, torch.float32)


SPARSE = stored(torch.eye(3, 1000) / 2)
WHERE = SPARSE["features_where"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features_where": WHERE.float()}, r"places of features are torch.float32 \(1, 1000\), not uint8 \[1, f\]"),
        ({"features_where": WHERE.repeat(2, 1)}, r"are torch.uint8 \(2, 1000\), not uint8 \[1, f\]"),
        ({"features_where": WHERE[0]}, r"are torch.uint8 \(1000,\), not"),
        ({"features_where": WHERE | 1}, "1003 places, 1000 of them beyond the last node"),
        ({"features": SPARSE["features"][:2]}, r"features have \(2,\) values for 3 places"),
        ({"features": torch.zeros(3, 1000, dtype=torch.uint8)}, r"features have \(3, 1000\) values for 3 places"),
        ({"features": SPARSE["features"].float()}, "have exponents, but are torch.float32"),
        ({"features_exponent": torch.zeros(3)}, r"exponents of features are torch.float32 \(3,\), not int16 \[3\]"),
        ({"features_exponent": torch.zeros(4, dtype=torch.int16)}, r"are torch.int16 \(4,\), not"),
        ({"counts_where": WHERE}, "it has 'counts_where', but nothing that this belongs to"),
        ({"pseudo_labels_exponent": torch.zeros(3)}, "it has 'pseudo_labels_exponent', but nothing"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack({**SPARSE, **changes})


def test_an_exponent_beyond_every_number_gives_no_number() -> None:
    """Such a row is infinite, which the reader of files refuses."""
    far = unpack({**SPARSE, "features_exponent": torch.full((3,), 2**15 - 1, dtype=torch.int16)})
    assert torch.isinf(far["features"]).any()


def test_levels_are_whole_and_rise() -> None:
    assert (np.diff(LEVELS) > 0).all()
    assert LEVELS[-1] == 1984
