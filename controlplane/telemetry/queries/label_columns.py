"""Label sets as columns of numbers, so that a query filters and groups thousands of them at once.

Guarantee: each label set is read once; label sets never change, so that what was read holds for good. Thread-safe.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.values.columns import Ids, Mask

LabelsOf = Callable[[Iterable[int]], Mapping[int, Mapping[str, str]]]
_FIRST_ROOM = 1024


class _Column:
    """One label: the number of its value for each label set, 0 where the set lacks it."""

    def __init__(self, room: int) -> None:
        self.codes: Ids = np.zeros(room, np.int32)
        self.number_of: dict[str, int] = {"": 0}
        self.values: list[str] = [""]

    def number(self, value: str) -> int:
        found = self.number_of.get(value)
        if found is None:
            # The text first: who finds a number may ask for its text at once.
            self.values.append(value)
            found = self.number_of[value] = len(self.values) - 1
        return found


class LabelColumns:
    """`learn` label sets, then ask for their values by label. A label that a set lacks counts as ""."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: Mask = np.zeros(_FIRST_ROOM, np.bool_)
        self._columns: dict[str, _Column] = {}

    def learn(self, ids: Ids, labels_of: LabelsOf) -> None:
        """See to it that these sets are in the columns."""
        with self._lock:
            inside = ids < len(self._known)
            missing = ids if not inside.all() else ids[~self._known[ids]]
        if not len(missing):
            return
        found = labels_of(np.unique(missing).tolist())
        with self._lock:
            self._make_room(max(found))
            for number, labels in found.items():
                for label, value in labels.items():
                    column = self._columns.get(label)
                    if column is None:
                        column = self._columns[label] = _Column(len(self._known))
                    column.codes[number] = column.number(value)
                self._known[number] = True

    def codes(self, label: str, ids: Ids) -> tuple[Ids, int]:
        """Numbers of the label's values in sets that were learnt, and a bound that all of them are below."""
        with self._lock:
            column = self._columns.get(label)
            if column is None:
                return np.zeros(len(ids), np.int32), 1
            return column.codes[ids], len(column.values)

    def value(self, label: str, code: int) -> str:
        """The text behind a number."""
        return self._columns[label].values[code] if code else ""

    def among(self, label: str, ids: Ids, wanted: Iterable[str]) -> Mask:
        """Which of these sets have one of these values."""
        codes, below = self.codes(label, ids)
        known = self._columns[label].number_of if label in self._columns else {"": 0}
        lets_in: NDArray[np.bool_] = np.zeros(below, np.bool_)
        numbers = [number for number in map(known.get, wanted) if number is not None and number < below]
        lets_in[numbers] = True
        return lets_in[codes]

    def _make_room(self, largest: int) -> None:
        more = max(largest + 1, 2 * len(self._known)) - len(self._known)
        if largest < len(self._known):
            return
        self._known = np.concatenate([self._known, np.zeros(more, np.bool_)])
        for column in self._columns.values():
            column.codes = np.concatenate([column.codes, np.zeros(more, np.int32)])
