"""What is computed with: device, threads, memory and precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges

PRECISIONS = ("float32", "bfloat16")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True)
class Compute:
    """What a computation may use.

    Attributes:
        device: such as ``cpu`` or ``cuda``.
        threads: CPU threads; None for torch's current number. Recorded, since sums differ between numbers of threads.
        memory: bytes to stay within, as a number or a text such as ``4GiB``; None for no limit.
        precision: of the encoders' products, ``float32`` or, on a GPU, ``bfloat16``; None for what the settings say.
    """

    device: str = "cpu"
    threads: int | None = None
    memory: int | str | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        check_ranges(self, {"threads": "[1, inf)", "precision": PRECISIONS})
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_memory(self.memory))
        check_precision(self.precision or "float32", self.device)

    @property
    def budget(self) -> int | None:
        """Bytes to stay within; None for no limit."""
        return None if self.memory is None else int(self.memory)


def check_precision(precision: str, device: str) -> None:
    """Raise :class:`SettingError` where the device cannot compute as asked."""
    if precision != "float32" and not device.startswith("cuda"):
        raise SettingError(f"precision is {precision}, but device is {device}: give a GPU (cuda), or float32")


def parse_memory(text: str | int) -> int:
    """Bytes from a number of them or a text such as ``4GiB``."""
    if isinstance(text, int):
        text = f"{text}B"
    for unit, size in sorted(UNITS.items(), key=lambda pair: -len(pair[0])):
        number = text.removesuffix(unit).strip()
        if text.endswith(unit) and number.replace(".", "", 1).isdecimal() and float(number) > 0:
            return int(float(number) * size)
    raise SettingError(f"memory is {text!r}: give a number and a unit ({', '.join(UNITS)}), as in 4GiB")


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[int]:
    """Compute with this many CPU threads, and put things back afterwards."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
