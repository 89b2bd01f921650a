"""Rows that are kept, in slices and in two precisions, are those that were written."""

from pathlib import Path

import pytest
import torch

from plgc.runtime.scratch import scratch
from plgc.sparse.features import StoredFeatures, sparse_features
from plgc.sparse.rows import ComputedRows, FeatureRows, KeptRows


@pytest.mark.parametrize("together", [None, 3, 8])
@pytest.mark.parametrize(("half", "exact"), [(False, 0.0), (True, 1e-3)])
def test_rows_are_kept(tmp_path: Path, together: int | None, half: bool, exact: float) -> None:
    values = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    values[3] = 0
    values[4] *= 1e8  # beyond the range of float16
    values[5] *= 1e-12
    with scratch(tmp_path) as room:
        kept = KeptRows(room, 50, 8, half=half, together=together)
        for first in range(0, 50, 20):
            kept.write_all(first, values[first : first + 20])
        largest = values.abs().amax(1, keepdim=True)
        for found, wanted, scale in (
            (kept.block(0, 50), values, largest),
            (kept.take(torch.tensor([5, 4, 3])), values[[5, 4, 3]], largest[[5, 4, 3]]),
        ):
            assert bool(((found - wanted).abs() <= exact * scale).all())


def test_features_give_the_same_rows_in_every_form() -> None:
    x = torch.randn(30, 4).relu()
    norm = torch.rand(30) + 0.5
    forms = [
        (x, x),
        (sparse_features(x.to_sparse_csr()), x),
        (StoredFeatures(x, norm), x / norm[:, None]),
        (StoredFeatures(x.half(), None), x.half().float()),
    ]
    for form, wanted in forms:
        rows = FeatureRows(form)
        assert torch.equal(rows.block(3, 9), wanted[3:9])
        assert torch.equal(rows.block(3, 9), wanted[3:9])
        assert torch.equal(rows.take(torch.tensor([7, 1])), wanted[[7, 1]])
        doubled = ComputedRows(8, lambda one, other: torch.cat([one, 2 * other], 1), rows, rows, cost=5)
        assert torch.equal(doubled.block(0, 30), torch.cat([wanted, 2 * wanted], 1))
        assert (doubled.wide, doubled.cost) == (24, 5)
