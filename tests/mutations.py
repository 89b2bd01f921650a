"""Damage for fuzz tests: of bytes, of safetensors files, and of JSON by somebody who means it."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from plgc.runtime.container import checksum

HUGE = (2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1, 10**30)
TYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U64", "BOOL", "F8_E4M3", "F4", "C64", "X", "")
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def damage(content: bytes, draw: random.Random) -> bytes:
    """Bits flipped, parts cut out, doubled or overwritten, the end missing, the first eight bytes replaced."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 1, 2, 4))):
        size, kind = len(data), draw.randrange(8)
        place = draw.randrange(size + 1)
        if kind <= 2 and size:
            data[place % size] ^= 1 << draw.randrange(8)
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            del data[place : place + draw.randint(1, 64)]
        elif kind == 5:
            data[place:place] = data[draw.randrange(size + 1) :][: draw.randint(1, 200)]
        elif kind == 6:
            data[place : place + 8] = draw.choice((bytes(8), b"\xff" * 8, draw.randbytes(8)))
        else:
            data[:8] = struct.pack("<Q", draw.choice((0, 1, size, 2**20, 2**40, 2**63, draw.randrange(2 * size + 1))))
    return bytes(data)


def odd_value(draw: random.Random, depth: int = 0) -> Any:
    """Something that a careful reader has to expect in JSON."""
    simple = (None, True, -1, 0, 1, 1.5, -0.0, math.nan, math.inf, 1e308, *HUGE, "", "x", "../x", "\0", "\ud800", "l2")
    kind = draw.randrange(12)
    if kind == 0 and depth < 3:
        return [odd_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 1 and depth < 3:
        return {draw.choice(("nodes", "edges", "kind", "x")): odd_value(draw, depth + 1) for _ in range(2)}
    if kind == 2:
        return "y" * draw.choice((10, 1000, 100_000))
    if kind == 3:
        return list(range(draw.choice((3, 1000, 20_000))))
    return draw.choice(simple)


def change_json(value: Any, draw: random.Random) -> Any:
    """The same JSON with something in it replaced, removed, renamed or added, at any depth."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        match draw.randrange(6):
            case 0:
                return {name: part for name, part in value.items() if name != key}
            case 1:
                return {f"{name}_" if name == key else name: part for name, part in value.items()}
            case 2:
                other = draw.choice(sorted(value))
                return {**value, key: value[other], other: value[key]}
            case 3:
                return {**value, "another": odd_value(draw)}
            case _:
                return {**value, key: change_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], change_json(value[place], draw), *value[place + draw.randrange(2) :]]
    return odd_value(draw)


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file taken apart: its header and its data."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def change_header(content: bytes, draw: random.Random) -> bytes:
    """The same data under a header that lies about types, shapes, places or names, is deep, or enormous."""
    header, data = split(content)
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names)
    entry = header[name]
    match draw.randrange(9):
        case 0:
            entry["dtype"] = draw.choice(TYPES)
        case 1:
            entry["shape"] = [draw.choice((0, 1, -1, *HUGE)) for _ in range(draw.randrange(4))]
        case 2:
            entry["shape"] = entry["shape"][::-1] + [1] * draw.choice((0, 1, 40, 5000))
        case 3:
            entry["data_offsets"] = [draw.choice((0, len(data), *HUGE)), draw.choice((0, len(data), *HUGE))]
        case 4:
            other = draw.choice(names)
            header[name], header[other] = header[other], header[name]
        case 5:
            header = {
                (draw.choice(("features", "x", "")) if key == name else key): part for key, part in header.items()
            }
        case 6:
            header = change_json(header, draw)
        case 7:
            text = draw.choice(("[" * 50_000, '{"a":' * 50_000, "9" * 50_000, '"' + "z" * 2**20 + '"', "nul"))
            header["__metadata__"]["plgc"] = text
        case _:
            header |= {f"t{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(500)}
    text = json.dumps(header).encode()
    if draw.random() < 0.03:
        text += b" " * 9 * 2**20
    return struct.pack("<Q", len(text)) + text + data


def forge(tensors: dict[str, Tensor], description: dict[str, Any], draw: random.Random) -> bytes:
    """A file with other tensors or another description, and the right checksum: what a stranger could send."""
    parts = {name: tensor.clone() for name, tensor in tensors.items()}
    for _ in range(draw.choice((0, 1, 1, 2))):
        name = draw.choice(sorted(parts))
        tensor = parts[name]
        match draw.randrange(8):
            case 0 if tensor.is_floating_point() and tensor.numel():
                tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice((math.nan, math.inf, -math.inf, 3e38))
            case 1 if tensor.dtype == torch.int64 and tensor.numel():
                tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice((-1, -(2**40), 2**62, 0))
            case 2:
                parts[name] = tensor.to(draw.choice(DTYPES))
            case 3:
                parts[name] = tensor.reshape(-1)[: draw.randrange(tensor.numel() + 1)].clone()
            case 4:
                parts[name] = tensor.t().contiguous() if tensor.ndim == 2 else tensor[None]
            case 5:
                parts = {key: part for key, part in parts.items() if key != name or len(parts) == 1}
            case 6:
                other = draw.choice(sorted(parts))
                parts[name], parts[other] = parts[other], parts[name].clone()
            case _:
                parts["another"] = torch.zeros(draw.choice((0, 1, 7)))
    changed = change_json(description, draw) if draw.random() < 0.75 else dict(description)
    if isinstance(changed, dict) and "format" in description and draw.random() < 0.8:
        changed |= {key: description[key] for key in ("format", "schema") if key in description}
    if isinstance(changed, dict):
        changed["checksum"] = checksum(parts, json.loads(json.dumps(changed)))
    return save(parts, {"plgc": json.dumps(changed, sort_keys=True)})
