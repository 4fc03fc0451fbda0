"""Which group of a query a label set belongs to (pure, but for the look-up of labels that it is handed)."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.queries.label_columns import LabelColumns, LabelsOf
from controlplane.telemetry.question import Where
from controlplane.telemetry.values.columns import Ids

__all__ = ["LEFT_OUT", "Grouping", "Groupings", "LabelsOf"]

Groups = NDArray[np.int32]
UNKNOWN, LEFT_OUT = -2, -1
HELD_BYTES = 32 << 20
"""Ways to group are remembered as far as they fit, the last ones asked for first."""
SMALLEST_BYTES = 32 << 10
"""Each counts as at least so much: there are at most a thousand."""
_VALUE_BYTES = 100
"""A text and its places in containers, roughly."""


class Grouping:
    """Groups by the labels `by` among the label sets that `where` lets in. A label that a set lacks counts as "".

    Thread-safe. Label sets never change, so that what was found out for one query holds for the next.
    """

    def __init__(self, by: Sequence[str], where: Where, columns: LabelColumns) -> None:
        self._by = tuple(by)
        self._where = {
            label: frozenset([values] if isinstance(values, str) else values) for label, values in where.items()
        }
        self._columns = columns
        self._lock = threading.Lock()
        self._group_of: Groups = np.full(1024, UNKNOWN, np.int32)
        self._numbers: dict[tuple[str, ...], int] = {}
        self._values: list[tuple[str, ...]] = []

    @property
    def nbytes(self) -> int:
        """What it holds in memory, roughly."""
        texts = sum(map(len, self._where.values())) + len(self._values) * (1 + len(self._by))
        return self._group_of.nbytes + texts * _VALUE_BYTES

    def rows(self, labels: Ids, labels_of: LabelsOf) -> Groups:
        """The group of each labels id; LEFT_OUT where it is filtered out."""
        groups = self._known(labels)
        unknown = groups == UNKNOWN
        if unknown.any():
            new = np.unique(labels[unknown])
            self._columns.learn(new, labels_of)
            with self._lock:
                self._group_of[new] = self._grouped(new)
            groups = self._known(labels)
        return groups

    def labels(self, group: int) -> dict[str, str]:
        """The labels of a group."""
        return dict(zip(self._by, self._values[group], strict=True))

    def _known(self, labels: Ids) -> Groups:
        with self._lock:
            largest = int(labels.max(initial=0))
            if largest >= len(self._group_of):
                more = np.full(max(largest + 1, 2 * len(self._group_of)) - len(self._group_of), UNKNOWN, np.int32)
                self._group_of = np.concatenate([self._group_of, more])
            return self._group_of[labels]

    def _grouped(self, ids: Ids) -> Groups:
        """The groups of distinct sets: a step in Python for each label and group, never for each set."""
        let_in = np.ones(len(ids), np.bool_)
        for label, values in self._where.items():
            let_in &= self._columns.among(label, ids, values)
        groups: Groups = np.full(len(ids), LEFT_OUT, np.int32)
        chosen = ids[let_in]
        if not len(chosen):
            return groups
        codes = [self._columns.codes(label, chosen) for label in self._by]
        alike = np.zeros(len(chosen), np.int64)
        for of_label, below in codes:
            # Renumbered after each label: otherwise many labels of many values outgrow 64 bits.
            alike = np.unique(alike * below + of_label, return_inverse=True)[1]
        _, first, inverse = np.unique(alike, return_index=True, return_inverse=True)
        numbers = [
            self._number(
                tuple(
                    self._columns.value(label, int(of_label[at]))
                    for label, (of_label, _) in zip(self._by, codes, strict=True)
                )
            )
            for at in first.tolist()
        ]
        groups[let_in] = np.array(numbers, np.int32)[inverse]
        return groups

    def _number(self, values: tuple[str, ...]) -> int:
        number = self._numbers.setdefault(values, len(self._numbers))
        if number == len(self._values):
            self._values.append(values)
        return number


class Groupings:
    """An LRU cache of the ways of grouping; each grows while it is used, so that sizes are taken anew. Thread-safe."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._held_bytes = held_bytes
        self._columns = LabelColumns()
        self._lock = threading.Lock()
        self._recent: OrderedDict[object, Grouping] = OrderedDict()

    def __len__(self) -> int:
        """Ways of grouping that are remembered."""
        return len(self._recent)

    def get(self, by: Sequence[str], where: Where) -> Grouping:
        asked = ((label, values if isinstance(values, str) else tuple(values)) for label, values in where.items())
        key = (tuple(by), frozenset(asked))
        with self._lock:
            grouping = self._recent.pop(key, None) or Grouping(by, where, self._columns)
            self._recent[key] = grouping
            held = sum(max(one.nbytes, SMALLEST_BYTES) for one in self._recent.values())
            while held > self._held_bytes and len(self._recent) > 1:
                held -= max(self._recent.popitem(last=False)[1].nbytes, SMALLEST_BYTES)
            return grouping
