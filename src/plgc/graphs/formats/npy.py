"""Arrays in npy form, in folders and in archives: memory is taken only after a header was found to fit what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from plgc.runtime.errors import GraphError


@dataclass(frozen=True)
class Header:
    """What an npy file says of its array; the values begin at ``offset``."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    offset: int


def read_header(file: IO[bytes], name: str, size: int) -> Header:
    """Read a header from the start of a file.

    Args:
        file: the npy file.
        name: of the array in messages.
        size: of the file in bytes, header and values.

    Raises:
        GraphError: the array is of Python objects, or would not fit into the file.
    """
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise GraphError(f"{name} is of npy version {version[0]}.{version[1]}: write it with numpy.save")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    header = Header(*read(file), offset=file.tell())
    if header.dtype.hasobject:
        raise GraphError(f"{name} holds Python objects, which are never opened: save plain numbers or text")
    count = math.prod(header.shape)
    needed, length = count * header.dtype.itemsize, size - header.offset
    if min(header.shape, default=0) < 0 or length < needed or (needed == 0 and count > 0):
        raise GraphError(
            f"{name} is cut short: {list(header.shape)} values of {header.dtype} take {needed:,} bytes, it has "
            f"{length:,}"
        )
    return header


def read_array(file: IO[bytes], name: str, size: int) -> np.ndarray:
    """Read the whole array of a file that can be read twice; arguments and errors are those of :func:`read_header`."""
    read_header(file, name, size)
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


def write_header(file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Write the header of an array whose values follow, rows after one another."""
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})


def write_features(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]) -> None:
    """Write features of this shape, some rows at a time.

    Raises:
        GraphError: a value is beyond the range of ``dtype``.
    """
    start = 0
    with open(path, "wb") as file:
        write_header(file, dtype, shape)
        for rows in blocks:
            with np.errstate(over="ignore"):
                written = np.ascontiguousarray(rows, dtype=dtype)
            lost = np.argwhere(np.isinf(written) & np.isfinite(rows))
            if len(lost):
                row, column = (int(place) for place in lost[0])
                raise GraphError(
                    f"x[{start + row}, {column}] is {rows[row, column]}, beyond the range of {dtype}: scale the "
                    "features or keep them in float32"
                )
            file.write(written.data)
            start += len(rows)
