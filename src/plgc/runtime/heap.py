"""Memory that has been freed and is kept by the C library for later, given back to the system."""

from __future__ import annotations

import contextlib
import ctypes


def trim() -> None:
    """Give back what is free, where the C library can (glibc); elsewhere nothing happens.

    Between two steps of a long run with a memory limit: what small blocks of the first have left between them would
    otherwise count beside the large ones of the second.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
