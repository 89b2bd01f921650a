"""Ten tables as users have them, each of a graph whose truth is known: two months of one population.

Every node has a class y and signals s = mean of its class + noise; edges mostly join nodes of one class. A table writes
the signals in units of its own (incomes, kelvin, dates, words), with the faults of real exports. ``clean`` is the same
graph as a matrix of the signals, which nothing has to be read from.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

NODES, NEW, CLASSES = 420, 500, 3
CITIES = ("Rome", "Oslo", "Lyon", "Graz", "Bern")
Columns = dict[str, list[Any]]


@dataclass
class Month:
    """One month: what is true of its nodes, and the tables that a user has."""

    ids: list[str]
    y: np.ndarray
    signals: np.ndarray
    edges: np.ndarray
    nodes: Columns = field(default_factory=dict)
    clean_columns: list[np.ndarray] = field(default_factory=list)

    def add(self, name: str, cells: Any, clean: np.ndarray | None = None) -> None:
        """Add a column to the table and, where it means something, to the clean matrix."""
        self.nodes[name] = list(cells)
        if clean is not None:
            self.clean_columns.append(np.asarray(clean, dtype=np.float32).reshape(len(self.ids), -1))

    def clean(self) -> Data:
        """The graph as a matrix of what the table's columns mean."""
        x = torch.from_numpy(np.concatenate(self.clean_columns, axis=1))
        return Data(x=x, edge_index=torch.from_numpy(self.edges), y=torch.from_numpy(self.y), num_nodes=len(self.ids))


@dataclass(frozen=True)
class Case:
    """Two months as files: edges and nodes each, the names of the columns, and what is true."""

    name: str
    january: Month
    february: Month
    columns: dict[str, str]
    delimiter: str = ","

    def write(self, folder: Path) -> dict[str, Path]:
        """Write the four tables."""
        found = {}
        for name, month in (("january", self.january), ("february", self.february)):
            source, target = self.columns.get("source", "payer"), self.columns.get("target", "payee")
            ends = [[month.ids[node] for node in end] for end in month.edges]
            edges = {source: ends[0], target: ends[1]}
            found[f"{name}_edges"] = _write(folder / f"{name}-edges.csv", edges, self.delimiter)
            found[name] = _write(folder / f"{name}.csv", month.nodes, self.delimiter)
        return found


def _write(path: Path, columns: Columns, delimiter: str) -> Path:
    content = io.StringIO()
    writer = csv.writer(content, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_text(content.getvalue(), encoding="utf-8")
    return path


def _months(seed: int, signals: int, spread: float = 1.0) -> tuple[np.random.Generator, Month, Month]:
    """January, and February, in which most nodes are new."""
    draw = np.random.default_rng(seed)
    means = spread * draw.normal(size=(CLASSES, signals))
    months = []
    for count, first in ((NODES, 0), (NEW, NODES - 100)):
        y = draw.integers(CLASSES, size=count)
        values = means[y] + draw.normal(size=(count, signals))
        source = draw.integers(count, size=2 * count)
        same = [draw.choice(np.flatnonzero(y == y[node])) for node in source]
        target = np.where(draw.random(2 * count) < 0.7, same, draw.integers(count, size=2 * count))
        ids = [f"k{first + node:05}" for node in range(count)]
        months.append(Month(ids, y, values, np.stack([source, target])))
    return draw, *months


def _words(signal: np.ndarray, words: tuple[str, ...] = CITIES) -> tuple[list[str], np.ndarray]:
    """A signal as words, by ranges, and the same as one column per word."""
    place = np.clip(np.floor((signal + 2) * len(words) / 4), 0, len(words) - 1).astype(int)
    return [words[at] for at in place], np.eye(len(words))[place]


def customers(seed: int = 0) -> Case:
    """Incomes are skewed, with outliers a hundred times as large; ages and months of another unit."""
    draw, *months = _months(seed + 10, 4)
    for month in months:
        s = month.signals
        income = np.exp(10 + 0.6 * s[:, 0]) * np.where(draw.random(len(s)) < 0.01, 100, 1)
        month.add("customer", month.ids)
        month.add("age", np.round(45 + 12 * s[:, 1]).astype(int), s[:, 1])
        month.add("income", np.round(income, 2), s[:, 0])
        month.add("months", np.round(np.exp(3 + 0.5 * s[:, 2])).astype(int), s[:, 2])
        cities, coded = _words(s[:, 3])
        month.add("city", cities, coded)
        month.add("newsletter", draw.choice(["yes", "no"], len(s)))
        month.add("segment", np.array(["basic", "plus", "gold"])[month.y])
    february = months[1]
    february.nodes["city"][:5] = ["Wien"] * 5
    return Case("customers", months[0], february, {"id": "customer", "label": "segment"})


def transactions(seed: int = 0) -> Case:
    """Sums with a heavy tail, counts, refunds that are zero for most."""
    draw, *months = _months(seed + 20, 4)
    for month in months:
        s = month.signals
        refunds = np.where(s[:, 2] > 0.8, np.round(np.exp(2 + s[:, 2]), 2), 0.0)
        month.add("account", month.ids)
        month.add("turnover", np.round(np.exp(6 + 1.5 * s[:, 0]), 2), s[:, 0])
        month.add("payments", draw.poisson(np.exp(2.5 + 0.4 * s[:, 1])), s[:, 1])
        month.add("refunds", refunds, np.maximum(s[:, 2] - 0.8, 0))
        words, coded = _words(s[:, 3], ("EUR", "USD", "CHF"))
        month.add("currency", words, coded)
        month.add("risk_class", np.array(["low", "mid", "high"])[month.y])
    return Case("transactions", *months, {"id": "account", "label": "risk_class"})


def sensors(seed: int = 0) -> Case:
    """Kelvin, pascal, shares and metres: unlike units, little variation around large values."""
    _, *months = _months(seed + 30, 4)
    for month in months:
        s = month.signals
        month.add("device", month.ids)
        month.add("kelvin", np.round(290 + 2 * s[:, 0], 3), s[:, 0])
        month.add("pascal", np.round(101325 + 500 * s[:, 1], 1), s[:, 1])
        month.add("humidity", np.round(1 / (1 + np.exp(-s[:, 2])), 4), s[:, 2])
        month.add("altitude", np.round(300 * np.exp(0.5 * s[:, 3])), s[:, 3])
        month.add("state", np.array(["fine", "worn", "broken"])[month.y])
    february = months[1]
    february.nodes = dict(reversed(february.nodes.items()))  # columns in another order
    return Case("sensors", months[0], february, {"id": "device", "label": "state"})


def papers(seed: int = 0) -> Case:
    """Words of abstracts as 0 and 1, a year and a number of pages."""
    draw, *months = _months(seed + 40, 2)
    chance = draw.dirichlet(np.full(80, 0.3), size=CLASSES) * 12
    for month in months:
        s = month.signals
        words = (draw.random((len(s), 80)) < np.minimum(chance[month.y], 0.9)).astype(int)
        month.add("paper", month.ids)
        month.add("year", np.round(2005 + 6 * s[:, 0]).astype(int), s[:, 0])
        month.add("pages", np.round(np.exp(2.3 + 0.4 * s[:, 1])).astype(int), s[:, 1])
        for place in range(80):
            month.add(f"word{place}", words[:, place], words[:, place])
        month.add("field", np.array(["theory", "systems", "vision"])[month.y])
    return Case("papers", *months, {"id": "paper", "label": "field"})


def users(seed: int = 0) -> Case:
    """Dates of signing up, times of the last visit, posts."""
    draw, *months = _months(seed + 50, 3, 1.2)
    for month in months:
        s = month.signals
        day = np.datetime64("2021-06-01") + np.round(200 * s[:, 0]).astype("timedelta64[D]")
        last = np.datetime64("2026-01-01T12:00:00") + np.round(86400 * 20 * s[:, 1]).astype("timedelta64[s]")
        month.add("handle", month.ids)
        month.add("signed_up", np.datetime_as_string(day), s[:, 0])
        month.add("last_visit", [str(value).replace("T", " ") for value in last], s[:, 1])
        month.add("posts", draw.poisson(np.exp(3 + 0.5 * s[:, 2])), s[:, 2])
        month.add("community", np.array(["north", "south", "west"])[month.y])
    return Case("users", *months, {"id": "handle", "label": "community"})


def languages(seed: int = 0) -> Case:
    """Names of columns and words in several languages and scripts."""
    _, *months = _months(seed + 60, 4)
    for month in months:
        s = month.signals
        month.add("código", month.ids)
        month.add("Größe in cm", np.round(170 + 9 * s[:, 0], 1), s[:, 0])
        month.add("доход", np.round(np.exp(10 + 0.6 * s[:, 1])), s[:, 1])
        words, coded = _words(s[:, 2], ("東京", "Αθήνα", "São Paulo", "Łódź"))
        month.add("都市", words, coded)
        month.add("âge", np.round(40 + 11 * s[:, 3]), s[:, 3])
        month.add("группа", np.array(["один", "два", "три"])[month.y])
    return Case("languages", *months, {"id": "código", "label": "группа", "source": "von", "target": "nach"})


def rare(seed: int = 0) -> Case:
    """Thirty-odd towns, most of them of very few nodes; a new one next month."""
    draw, *months = _months(seed + 70, 4)
    for month in months:
        s = month.signals
        cities, coded = _words(s[:, 3])
        seldom = draw.random(len(s)) < 0.12
        towns = [f"Hamlet {draw.integers(30)}" if odd else city for odd, city in zip(seldom, cities, strict=True)]
        month.add("member", month.ids)
        month.add("town", towns, coded * ~seldom[:, None])
        for place, name in enumerate(("visits", "spent", "distance")):
            month.add(name, np.round(np.exp(2 + place + 0.5 * s[:, place]), 2), s[:, place])
        month.add("tier", np.array(["one", "two", "three"])[month.y])
    months[1].nodes["town"][0] = "Newtown"
    return Case("rare", *months, {"id": "member", "label": "tier"})


def missing(seed: int = 0) -> Case:
    """Two cells of five are empty, written in several ways."""
    draw, *months = _months(seed + 80, 6, 1.2)
    for month in months:
        s = month.signals
        month.add("patient", month.ids)
        for place, name in enumerate(("height", "weight_kg", "pulse", "glucose", "iron")):
            gaps = draw.random(len(s)) < 0.4
            cells = [f"{value:.2f}" for value in (70 + place * 40 + 9 * s[:, place])]
            holes = draw.choice(["", "NA", "n/a", "null"], len(s))
            month.add(name, np.where(gaps, holes, cells), np.where(gaps, np.median(s[~gaps, place]), s[:, place]))
        words, coded = _words(s[:, 5])
        gaps = draw.random(len(s)) < 0.4
        month.add("clinic", np.where(gaps, "", words), coded * ~gaps[:, None])
        month.add("outcome", np.array(["well", "same", "worse"])[month.y])
    return Case("missing", *months, {"id": "patient", "label": "outcome"})


def constant(seed: int = 0) -> Case:
    """A number and a word that are the same in every row of January, and one column that February lacks."""
    draw, *months = _months(seed + 90, 4)
    for month in months:
        s = month.signals
        month.add("shop", month.ids)
        month.add("version", [7] * len(s))
        month.add("country", ["Norge"] * len(s))
        for place, name in enumerate(("area", "staff", "sales", "rent")):
            month.add(name, np.round(np.exp(4 + 0.5 * s[:, place]), 2), s[:, place])
        month.add("weather", draw.normal(size=len(s)).round(3), np.zeros(len(s)))
        month.add("kind", np.array(["food", "books", "shoes"])[month.y])
    february = months[1]
    del february.nodes["weather"]
    february.nodes["version"][0], february.nodes["country"][0], february.nodes["colour"] = 8, "Sverige", ["red"] * NEW
    return Case("constant", months[0], february, {"id": "shop", "label": "kind"})


def european(seed: int = 0) -> Case:
    """Semicolons, decimal commas, points between thousands."""
    _, *months = _months(seed + 100, 4)

    def written(values: np.ndarray, digits: int) -> list[str]:
        return [f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,")) for value in values]

    for month in months:
        s = month.signals
        month.add("kunde", month.ids)
        month.add("umsatz", written(np.exp(9 + 0.7 * s[:, 0]), 2), s[:, 0])
        month.add("gehalt", written(np.round(np.exp(10 + 0.3 * s[:, 1])), 0), s[:, 1])
        month.add("quote", written(1 / (1 + np.exp(-s[:, 2])), 4), s[:, 2])
        words, coded = _words(s[:, 3], ("Köln", "Ulm", "Jena"))
        month.add("ort", words, coded)
        month.add("stufe", np.array(["A", "B", "C"])[month.y])
    return Case("european", *months, {"id": "kunde", "label": "stufe"}, delimiter=";")


CASES: dict[str, Callable[..., Case]] = {
    make.__name__: make
    for make in (customers, transactions, sensors, papers, users, languages, rare, missing, constant, european)
}
