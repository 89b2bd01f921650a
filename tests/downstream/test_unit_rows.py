from __future__ import annotations

import torch

from plgc.downstream.unit_rows import ROWS, unit_rows

PARTS = {"x": 3, "propagated_1": 5}


def test_the_products_are_those_of_centred_rows_of_unit_length() -> None:
    embedding = torch.randn(ROWS + 7, 8, generator=torch.Generator().manual_seed(0)) * 3 + 2
    weight = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    rows = unit_rows(embedding, PARTS)["propagated_1"]
    centred = embedding[:, 3:] - embedding[:, 3:].mean(0)
    expected = centred / centred.norm(dim=1, keepdim=True)
    torch.testing.assert_close(rows.times(weight), expected @ weight, atol=1e-5, rtol=1e-5)
    nodes = torch.tensor([5, 0, ROWS + 6])
    torch.testing.assert_close(rows.take(nodes), expected[nodes], atol=1e-5, rtol=1e-5)
    assert rows.width == 5


def test_a_given_mean_is_used_and_rows_of_zeros_stay_zeros() -> None:
    embedding = torch.tensor([[1.0, 2.0], [4.0, 6.0]])
    rows = unit_rows(embedding, {"x": 2}, torch.tensor([1.0, 2.0]))["x"]
    torch.testing.assert_close(rows.take(torch.arange(2)), torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
