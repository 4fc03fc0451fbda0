"""The rows of several reports joined, each with its owner (pure).

Arithmetic on a few long arrays is far cheaper than on many short ones, so a commit's reports are handled as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from controlplane.telemetry.values.columns import Columns, Ids, Mask, Table, concatenate


@dataclass(eq=False)
class Batch:
    """metric and labels of `columns`: places in all `tables`, one after the other. `owners`: the number of the report
    that each row belongs to; histograms first, then sums, then gauges.
    """

    columns: Columns
    tables: Sequence[Table]
    owners: Ids

    def select(self, keep: Mask) -> Self:
        """The rows where `keep` is true."""
        return self if keep.all() else replace(self, columns=select(self.columns, keep), owners=self.owners[keep])

    def owned_by(self, numbers: Ids) -> Self:
        """The same rows, owner i called numbers[i]."""
        return replace(self, owners=numbers[self.owners]) if len(numbers) else self

    def counts(self, owners: int, where: Mask | None = None) -> list[int]:
        """Rows of each owner."""
        chosen = self.owners if where is None else self.owners[where]
        found: list[int] = np.bincount(chosen, minlength=owners).tolist()
        return found


def select(columns: Columns, keep: Mask) -> Columns:
    """The rows where `keep` is true: histograms first, then sums, then gauges."""
    first, second = len(columns.histograms), len(columns.histograms) + len(columns.sums)
    return Columns(
        columns.histograms.select(keep[:first]),
        columns.sums.select(keep[first:second]),
        columns.gauges.select(keep[second:]),
    )


def offsets(lengths: Sequence[int] | Ids) -> Ids:
    """Where each of several lists begins when they are put one after the other."""
    found: Ids = (np.cumsum(lengths) - np.array(lengths)).astype(np.int32)
    return found


def renumbered(columns: Columns, metric: Ids, labels: Ids) -> Columns:
    """Every number looked up in an array."""
    histograms, sums, gauges = columns.histograms, columns.sums, columns.gauges
    return Columns(
        replace(histograms, metric=metric[histograms.metric], labels=labels[histograms.labels]),
        replace(sums, metric=metric[sums.metric], labels=labels[sums.labels]),
        replace(gauges, metric=metric[gauges.metric], labels=labels[gauges.labels]),
    )


def join(parts: Sequence[tuple[int, Table, Columns]]) -> Batch:
    """Reports given as (owner, table, columns with places in that table)."""
    metric_at = offsets([len(table.metrics) for _, table, _ in parts])
    labels_at = offsets([len(table.labels) for _, table, _ in parts])
    moved = [
        renumbered(
            columns,
            np.arange(metric, metric + len(table.metrics), dtype=np.int32),
            np.arange(labels, labels + len(table.labels), dtype=np.int32),
        )
        for (_, table, columns), metric, labels in zip(parts, metric_at.tolist(), labels_at.tolist(), strict=True)
    ]
    numbers = np.array([owner for owner, _, _ in parts], np.int32)
    owners = [
        np.repeat(numbers, [len(getattr(columns, kind)) for columns in moved])
        for kind in ("histograms", "sums", "gauges")
    ]
    return Batch(
        concatenate(moved) if moved else Columns.empty(), [table for _, table, _ in parts], np.concatenate(owners)
    )
