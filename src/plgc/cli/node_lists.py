"""Nodes that a CSV file names: by their ids where the graph has them, else by number."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plgc.cli.output import notice
from plgc.runtime.errors import PLGCError, SettingError

if TYPE_CHECKING:
    from torch import Tensor

MOST = 2**62  # of numbers that fit into a tensor
SEARCHED = 20_000  # ids among which the nearest to a misspelt one is searched
WORDS = {  # by the columns of a list, and whether nodes have ids: what is listed, one of it, and what a line names
    (1, False): ("nodes", "node", "a node number"),
    (1, True): ("nodes", "node", "the id of a node"),
    (2, False): ("pairs", "pair", "two node numbers"),
    (2, True): ("pairs", "pair", "two ids of nodes"),
}


def read_nodes(path: Path, ids: Sequence[str] | None, columns: int) -> Tensor:
    """Numbers of the nodes that a CSV file lists, [M, columns]; a first line of names is skipped, with a notice.

    Args:
        path: the file.
        ids: the names of the nodes, which the file has then too; None where it has their numbers.
        columns: how many nodes a line names, 1 or 2; further cells are left alone.
    """
    import torch

    from plgc.graphs.formats.limits import open_lines

    things, thing, what = WORDS[columns, ids is not None]
    try:
        if path.is_file() and path.stat().st_size == 0:
            lines = []
        else:
            with open_lines(path) as content:
                lines = [line for line in csv.reader(content) if line]
    except (PLGCError, csv.Error) as error:
        raise SettingError(f"{path} cannot be read as a CSV file of {things} ({error})") from error
    number = None if ids is None else {name: place for place, name in enumerate(ids)}
    first = [cell.strip() for cell in lines[0]] if lines else []
    if not any(cell.lstrip("-").isdigit() if number is None else cell in number for cell in first):
        if lines:
            notice(f"{path.name}: the first line, {','.join(first)!r:.80}, is taken for names of columns")
        lines = lines[1:]
    found = []
    for place, line in enumerate(lines, 1):
        named = []
        try:
            named = [_number(cell) if number is None else number[cell.strip()] for cell in line[:columns]]
        except (ValueError, LookupError):
            near = _nearest(line[:columns], number)
        else:
            near = ""
        if len(named) < columns:
            raise SettingError(f"{path}: {thing} {place} is {','.join(line)!r}, expected {what}{near}")
        found.append(named)
    if not found:
        such = ",".join(["17", "42"][:columns] if ids is None else [ids[0], ids[-1]][:columns])
        raise SettingError(f"{path} holds no {things}: give {what} a line, as in {such}")
    return torch.tensor(found)


def _number(cell: str) -> int:
    if abs(number := int(cell)) > MOST:
        raise ValueError("no graph has as many nodes")
    return number


def _nearest(cells: Sequence[str], number: Mapping[str, int] | None) -> str:
    """A hint on an id that does not exist: the nearest that does."""
    unknown = [cell.strip() for cell in cells if number is not None and cell.strip() not in number]
    near = difflib.get_close_matches(unknown[0], list(number or ())[:SEARCHED], n=1) if unknown else []
    return f": there is no node {unknown[0]!r}" + (f", did you mean {near[0]!r}?" if near else "") if unknown else ""
