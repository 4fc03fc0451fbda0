"""Logarithms of factorials, computed once: what exact tests of counts are made of.

Guarantee: from any number of threads a table is long enough for what was asked, and is never changed once it was given
out: a longer one takes its place.
"""

import threading

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LogFactorials:
    """A table that grows by what is asked of it."""

    def __init__(self) -> None:
        self._growing = threading.Lock()
        self._table: Floats = _table_of(1)

    def up_to(self, largest: int) -> Floats:
        """ln 0!, ln 1!, ..., at least up to ln largest!; read-only."""
        table = self._table  # Read once: another thread may replace it at any time, by a longer one.
        return table if largest < len(table) else self._grown(largest)

    def _grown(self, largest: int) -> Floats:
        with self._growing:
            if largest >= len(self._table):  # Nobody has made it longer meanwhile.
                self._table = _table_of(max(2 * len(self._table), largest + 1))
            return self._table


def _table_of(size: int) -> Floats:
    table = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size, dtype=np.float64)))])
    table.flags.writeable = False
    return table


_shared = LogFactorials()


def log_factorials(largest: int) -> Floats:
    """ln 0!, ln 1!, ..., at least up to ln largest!; read-only, and the same for all who ask."""
    return _shared.up_to(largest)
