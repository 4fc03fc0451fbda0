"""How the service's C library keeps memory that was freed.

Queries and folds work on arrays of a few hundred kilobytes that live for less than a millisecond. By default glibc
gives such memory back to the kernel when it is freed, and takes it again page by page, each page cleared and mapped at
its first touch: two thirds of the time that it takes to read a frame.

Guarantee: what is kept longer than from one `trim` to the next is in use. With another C library nothing changes, and
the log says so.
"""

import ctypes
import logging
from datetime import datetime
from typing import ClassVar, NamedTuple

logger = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20
"""At the top of each of `ARENAS` heaps; between what is in use more may be free until it is trimmed."""
MAPPED_FROM = 32 << 20
"""Bytes of an allocation from which on it is mapped by itself, and given back when it is freed; glibc's own limit."""
ARENAS = 4
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h


def settle() -> bool:
    """Call before threads are started. Returns whether the C library took it."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        logger.info("this C library has no mallopt: freed memory goes back to the kernel at once")
        return False
    wanted = ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, MAPPED_FROM), (_ARENA_MAX, ARENAS))
    return all([library.mallopt(name, value) == 1 for name, value in wanted])


class Heaps(NamedTuple):
    """Bytes of all heaps of the C library, and of what is mapped by itself: in use, and free but kept."""

    used: int
    kept: int


_MALLINFO2 = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo2(ctypes.Structure):
    """glibc's struct of that name, from 2.33 on."""

    _fields_: ClassVar = [(name, ctypes.c_size_t) for name in _MALLINFO2]


def heaps() -> Heaps | None:
    """What a process that has grown holds, apart from what it merely keeps; None: this C library does not tell."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _Mallinfo2
    told = library.mallinfo2()
    return Heaps(told.uordblks + told.hblkhd, told.fordblks)


def trim(_: datetime) -> None:
    """Give back what is free now, wherever it lies. To be called every minute: what is wanted again costs its pages."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(KEPT_BYTES)
