"""How the tensors of a condensed graph lie in its file: in the smallest form that gives every value back.

Whole numbers have the smallest type that holds them all. X' and Ỹ are float8, float16 or float32, the first of these
that holds every value exactly (:func:`plgc.artifact.rounding.rounded` makes values that float8 holds). Where zeros make
it smaller, the values other than 0 alone are stored, row after row, and ``NAME_where``, a bit for each value of NAME:
uint8 [⌈K/8⌉, f], the first row in the highest bit.

A float8 is a byte: a sign, three bits e of exponent, four bits m of mantissa. Its size is m · 2ˢ where e is 0 and
(16 + m) · 2ᵉ⁻¹⁺ˢ above, with s from ``NAME_exponent``, int16 [K], one for each row: five significant bits, and a row's
smallest value can be a thousandth of its largest.

No field of the description states a size: all sizes are those of tensors in the file, and what is unpacked takes at
most 32 times the bytes that it has there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

MATRICES = ("features", "pseudo_labels")
WHOLE_NUMBERS = ("counts", "labels", "edge_index")
SMALL_TYPES = (torch.uint8, torch.int16, torch.int32)
SIGN = 128
LEVELS = np.concatenate([np.arange(16.0), *(np.arange(16.0, 32.0) * 2**e for e in range(7))])  # sizes of float8 / 2ˢ
MIDDLES = (LEVELS[1:] + LEVELS[:-1]) / 2
LARGEST = 11  # all levels are below 2¹¹


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as a file has them; :func:`unpack` gives them back, bit for bit apart from the sign of a 0."""
    stored = dict[str, Tensor]()
    for name, tensor in tensors.items():
        if name in MATRICES and tensor.dtype == torch.float32 and tensor.ndim == 2 and tensor.numel():
            stored |= _pack_matrix(name, tensor.detach().cpu().numpy())
        elif name in WHOLE_NUMBERS and tensor.dtype == torch.int64:
            stored[name] = _smallest_whole(tensor)
        elif tensor.dtype == torch.float32 and torch.equal(tensor.half().float(), tensor):
            stored[name] = tensor.half()
        else:
            stored[name] = tensor
    return stored


def unpack(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file as they are computed with: float32 and int64. Types that we never write stay.

    Raises:
        KeyError: ``counts`` is missing.
        ValueError: parts of a tensor do not fit each other.
    """
    found, nodes = dict[str, Tensor](), len(stored["counts"])
    for name, tensor in stored.items():
        base = name.removesuffix("_where").removesuffix("_exponent")
        if base != name:
            if base not in MATRICES or base not in stored:
                raise ValueError(f"it has {name[:40]!r}, but nothing that this belongs to")
        elif name in MATRICES:
            found[name] = _unpack_matrix(name, tensor, stored, nodes)
        elif tensor.dtype == torch.float16:
            found[name] = tensor.float()
        else:
            found[name] = tensor.long() if name in WHOLE_NUMBERS and tensor.dtype in SMALL_TYPES else tensor
    return found


def to_float8(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest float8 of every value, uint8 [K, f], and the exponents s, int16 [K]."""
    sizes = np.abs(values.astype(np.float64))
    exponents = np.frexp(sizes.max(axis=1))[1] - LARGEST
    codes = np.searchsorted(MIDDLES, np.ldexp(sizes, -exponents[:, None]))
    signs = np.where((values < 0) & (codes > 0), SIGN, 0)
    return (codes + signs).astype(np.uint8), exponents.astype(np.int16)


def of_float8(codes: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """The values of float8 codes, float32 [K, f]; infinite where an exponent is beyond what we write."""
    signed = np.where(codes < SIGN, LEVELS[codes % SIGN], -LEVELS[codes % SIGN])
    with np.errstate(over="ignore"):
        return np.ldexp(signed, exponents.astype(np.int64)[:, None]).astype(np.float32)


def _pack_matrix(name: str, values: np.ndarray) -> dict[str, Tensor]:
    parts = _smallest_float(name, values)
    filled = values != 0
    where = np.packbits(filled, axis=0)
    stored = parts[name]
    if where.nbytes + stored.itemsize * filled.sum() < stored.nbytes:
        parts |= {name: stored[filled], f"{name}_where": where}
    return {part: torch.from_numpy(array) for part, array in parts.items()}


def _smallest_float(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """float8 with its exponents, float16 or float32."""
    with np.errstate(over="ignore", invalid="ignore"):  # of values that are not finite, which are refused later
        codes, exponents = to_float8(values)
        if np.array_equal(of_float8(codes, exponents), values):
            return {name: codes, f"{name}_exponent": exponents}
        half = values.astype(np.float16)
    return {name: half if np.array_equal(half.astype(np.float32), values) else values}


def _unpack_matrix(name: str, tensor: Tensor, stored: Mapping[str, Tensor], nodes: int) -> Tensor:
    where, exponents = stored.get(f"{name}_where"), stored.get(f"{name}_exponent")
    if where is not None:
        tensor = _spread(name, tensor, where, nodes)
    if exponents is None:
        return tensor.float() if tensor.dtype == torch.float16 else tensor
    if tensor.dtype != torch.uint8 or tensor.ndim != 2:
        raise ValueError(f"{name} have exponents, but are {tensor.dtype} {tuple(tensor.shape)}, not float8 [K, f]")
    if exponents.dtype != torch.int16 or exponents.shape != tensor.shape[:1]:
        found = f"{exponents.dtype} {tuple(exponents.shape)}"
        raise ValueError(f"exponents of {name} are {found}, not int16 [{tensor.shape[0]}]")
    return torch.from_numpy(of_float8(tensor.numpy(), exponents.numpy()))


def _spread(name: str, values: Tensor, where: Tensor, nodes: int) -> Tensor:
    """A matrix from its values other than 0 and the bits that say where they are."""
    if where.dtype != torch.uint8 or where.ndim != 2 or where.shape[0] != -(-nodes // 8):
        found = f"{where.dtype} {tuple(where.shape)}"
        raise ValueError(f"the places of {name} are {found}, not uint8 [{-(-nodes // 8)}, f]")
    bits = torch.from_numpy(np.unpackbits(where.numpy(), axis=0)).bool()
    if values.ndim != 1 or int(bits.sum()) != len(values) or bool(bits[nodes:].any()):
        count = f"{int(bits.sum())} places, {int(bits[nodes:].sum())} of them beyond the last node"
        raise ValueError(f"{name} have {tuple(values.shape)} values for {count}")
    matrix = torch.zeros(nodes, where.shape[1], dtype=values.dtype)
    matrix[bits[:nodes]] = values
    return matrix


def _smallest_whole(tensor: Tensor) -> Tensor:
    low, high = (int(tensor.min()), int(tensor.max())) if tensor.numel() else (0, 0)
    fits = (kind for kind in SMALL_TYPES if torch.iinfo(kind).min <= low and high <= torch.iinfo(kind).max)
    return tensor.to(next(fits, torch.int64))
