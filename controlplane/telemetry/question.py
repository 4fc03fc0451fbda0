"""What is asked of telemetry, as a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.telemetry.values.catalogue import check_labels
from controlplane.telemetry.values.timespan import Span, check_step

Where = Mapping[str, str | Sequence[str]]
"""Label to its value, or to several of which any will do."""


class Cost(Protocol):
    """What answering has cost so far. Both raise when that is too much."""

    def read(self, rows: int) -> None:
        """So many rows more are about to be added up."""

    def made(self, cells: int) -> None:
        """The answer is of so many groups times steps."""


class Free:
    """Of those who ask for the service itself."""

    def read(self, rows: int) -> None:
        pass

    def made(self, cells: int) -> None:
        pass


@dataclass(frozen=True)
class Question:
    """A metric (short name) over a span: grouped by labels, of the label sets that `where` lets in.

    step_s: the span is also cut into steps of so many seconds, a multiple of the store's window. most: of the series of
    an answer (readers give all). Raises `BadRequest` for what is no label, and for a step that is none.
    """

    metric: str
    span: Span
    by: Sequence[str] = ()
    where: Where = field(default_factory=dict)
    step_s: float | None = None
    most: int | None = None
    cost: Cost = field(default_factory=Free, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_labels(self.by, "by")
        for label in self.where:
            check_labels([label], label)
        if self.step_s is not None:
            check_step(self.step_s)
