"""Which group of a query a series belongs to (pure, but for the look-up of labels that it is handed)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LabelsOf = Callable[[Iterable[int]], Mapping[int, Mapping[str, str]]]
UNKNOWN, LEFT_OUT = -2, -1


class Grouping:
    """Groups by the labels `by` among the series that `where` lets in. A label that a series lacks counts as ""."""

    def __init__(self, by: Sequence[str], where: Mapping[str, str | Sequence[str]], labels_of: LabelsOf) -> None:
        self._by = tuple(by)
        self._where = {
            label: frozenset([values] if isinstance(values, str) else values) for label, values in where.items()
        }
        self._labels_of = labels_of
        self._group_of: NDArray[np.int32] = np.full(1024, UNKNOWN, np.int32)
        self._numbers: dict[tuple[str, ...], int] = {}

    def rows(self, series: NDArray[np.int32]) -> NDArray[np.int32]:
        """The group of each series id; LEFT_OUT where it is filtered out."""
        largest = int(series.max(initial=0))
        if largest >= len(self._group_of):
            more = np.full(max(largest + 1, 2 * len(self._group_of)) - len(self._group_of), UNKNOWN, np.int32)
            self._group_of = np.concatenate([self._group_of, more])
        groups = self._group_of[series]
        if (groups == UNKNOWN).any():
            for number, labels in self._labels_of(series[groups == UNKNOWN].tolist()).items():
                self._group_of[number] = self._number(labels)
            groups = self._group_of[series]
        return groups

    def labels(self) -> list[dict[str, str]]:
        """The labels of each group, by its number."""
        return [dict(zip(self._by, values, strict=True)) for values in self._numbers]

    def _number(self, labels: Mapping[str, str]) -> int:
        if any(labels.get(label, "") not in values for label, values in self._where.items()):
            return LEFT_OUT
        values = tuple(labels.get(label, "") for label in self._by)
        return self._numbers.setdefault(values, len(self._numbers))
