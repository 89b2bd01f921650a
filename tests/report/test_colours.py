"""The page's colours can be told apart, with common and with rarer eyes, and stand out from the paper."""

from __future__ import annotations

import itertools
import re
from importlib import resources

import numpy as np
import pytest

# How colours look without one kind of cone (Machado, Oliveira and Fernandes, 2009), on linear RGB.
EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def themes() -> list[tuple[str, list[str]]]:
    """Paper and colours of the light, the dark and the printed page."""
    style = resources.files("plgc.report").joinpath("page", "page.css").read_text(encoding="utf-8")
    blocks = style.split(":root {")[1:]
    return [(re.findall(r"--paper: (#\w+)", block)[0], re.findall(r"--c\d: (#\w{6})", block)) for block in blocks]


def linear(colour: str) -> np.ndarray:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    value = np.array([int(digits[place : place + 2], 16) for place in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    xyz = XYZ @ light.clip(0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", EYES)
def test_colours_differ(eyes: str) -> None:
    for _, colours in themes():
        assert len(colours) == 8
        seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in colours]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def test_colours_stand_out_from_the_paper() -> None:
    for paper, colours in themes():
        ground = XYZ[1] @ linear(paper)
        for colour in colours:
            low, high = sorted((ground, XYZ[1] @ linear(colour)))
            assert (high + 0.05) / (low + 0.05) > 2.2, colour
