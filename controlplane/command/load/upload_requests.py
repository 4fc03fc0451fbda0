"""Batches to requests: parts of several files that are near each other in time go into one bundle.

The service folds the windows of a bundle at once; the fewer bundles a window is spread over, the less is merged twice.
So files are read side by side, the oldest part first.

Guarantee: every batch is in exactly one request; those of one file keep their order. A bundle is within the service's
limit unless a single part is over it.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from controlplane.command.load.batches import Batch

BUNDLE_BYTES = 32 << 20
BUNDLE_PARTS = 200


@dataclass
class Request:
    """One request: a batch, or several parts."""

    batches: list[Batch] = field(default_factory=list)
    nbytes: int = 0

    @property
    def is_bundle(self) -> bool:
        return self.batches[0].is_part

    def takes(self, batch: Batch) -> bool:
        """Whether there is room for one more."""
        return (
            batch.is_part
            and self.is_bundle
            and len(self.batches) < BUNDLE_PARTS
            and self.nbytes + len(batch.body) <= BUNDLE_BYTES
        )

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.nbytes += len(batch.body)


def side_by_side(files: Sequence[Iterable[Batch]]) -> Iterator[Batch]:
    """The batches of several files in about the order of time; what has no known time comes first, file by file."""
    yield from heapq.merge(*files, key=lambda batch: batch.window)


def requests(batches: Iterable[Batch]) -> Iterator[Request]:
    request = Request()
    for batch in batches:
        if request.batches and not request.takes(batch):
            yield request
            request = Request()
        request.add(batch)
    if request.batches:
        yield request
