"""What is asked of telemetry, as a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.telemetry.values.catalogue import check_labels
from controlplane.telemetry.values.timespan import Span, check_step

Where = Mapping[str, str | Sequence[str]]
"""Label to its value, or to several of which any will do."""


@dataclass(frozen=True)
class Question:
    """A metric (short name) over a span: grouped by labels, of the label sets that `where` lets in.

    step_s: the span is also cut into steps of so many seconds, a multiple of the store's window. Raises `BadRequest`
    for what is no label, and for a step that is none.
    """

    metric: str
    span: Span
    by: Sequence[str] = ()
    where: Where = field(default_factory=dict)
    step_s: float | None = None

    def __post_init__(self) -> None:
        check_labels(self.by, "by")
        for label in self.where:
            check_labels([label], label)
        if self.step_s is not None:
            check_step(self.step_s)
