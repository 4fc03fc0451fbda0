"""Which group of a query a label set belongs to (pure, but for the look-up of labels that it is handed)."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LabelsOf = Callable[[Iterable[int]], Mapping[int, Mapping[str, str]]]
Where = Mapping[str, str | Sequence[str]]
Groups = NDArray[np.int32]
UNKNOWN, LEFT_OUT = -2, -1
GROUPINGS = 32
"""How many ways to group are remembered."""
MOST_SETS = 200_000
"""A grouping of more label sets than this is not remembered: it would hold too much memory."""


class Grouping:
    """Groups by the labels `by` among the label sets that `where` lets in. A label that a set lacks counts as "".

    Thread-safe. Label sets never change, so that what was found out for one query holds for the next.
    """

    def __init__(self, by: Sequence[str], where: Where) -> None:
        self._by = tuple(by)
        self._where = {
            label: frozenset([values] if isinstance(values, str) else values) for label, values in where.items()
        }
        self._lock = threading.Lock()
        self._group_of: Groups = np.full(1024, UNKNOWN, np.int32)
        self._numbers: dict[tuple[str, ...], int] = {}
        self._values: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        """Label set ids that there is room for."""
        return len(self._group_of)

    def rows(self, labels: NDArray[np.int32], labels_of: LabelsOf) -> Groups:
        """The group of each labels id; LEFT_OUT where it is filtered out."""
        groups = self._known(labels)
        unknown = groups == UNKNOWN
        if unknown.any():
            found = labels_of(np.unique(labels[unknown]).tolist())
            with self._lock:
                for number, given in found.items():
                    self._group_of[number] = self._number(given)
            groups = self._known(labels)
        return groups

    def labels(self, group: int) -> dict[str, str]:
        """The labels of a group."""
        return dict(zip(self._by, self._values[group], strict=True))

    def _known(self, labels: NDArray[np.int32]) -> Groups:
        with self._lock:
            largest = int(labels.max(initial=0))
            if largest >= len(self._group_of):
                more = np.full(max(largest + 1, 2 * len(self._group_of)) - len(self._group_of), UNKNOWN, np.int32)
                self._group_of = np.concatenate([self._group_of, more])
            return self._group_of[labels]

    def _number(self, labels: Mapping[str, str]) -> int:
        if any(labels.get(label, "") not in values for label, values in self._where.items()):
            return LEFT_OUT
        values = tuple(labels.get(label, "") for label in self._by)
        number = self._numbers.setdefault(values, len(self._numbers))
        if number == len(self._values):
            self._values.append(values)
        return number


class Groupings:
    """The ways of grouping that were asked for last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: OrderedDict[object, Grouping] = OrderedDict()

    def get(self, by: Sequence[str], where: Where) -> Grouping:
        asked = ((label, values if isinstance(values, str) else tuple(values)) for label, values in where.items())
        key = (tuple(by), frozenset(asked))
        with self._lock:
            grouping = self._recent.pop(key, None) or Grouping(by, where)
            self._recent[key] = grouping
            for old in [one for one in self._recent if len(self._recent[one]) > MOST_SETS and one != key]:
                del self._recent[old]
            while len(self._recent) > GROUPINGS:
                self._recent.popitem(last=False)
            return grouping
