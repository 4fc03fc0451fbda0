"""What a rule's judges say of one condition at one moment."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.histogram import RELATIVE_ERROR


class Reading(StrEnum):
    """What one look at the condition says."""

    BREACH = "breach"  # The condition holds.
    HOLD = "hold"  # Cannot tell (too few requests), or between the limit and the level at which it is called over.
    CLEAR = "clear"  # The condition is gone.


@dataclass(frozen=True)
class Patience:
    """How long a breach must last before it fires, and how long it must be gone before it is resolved."""

    for_s: float = 0.0
    resolve_s: float = 0.0


@dataclass(frozen=True)
class Finding:
    """One reading of the condition that `labels` name, at event time `at`; seconds throughout.

    `since` is when the breach began where the judge knows better than the first reading. `before_s` is what the
    quantile was earlier, where that is known. `stage` is what a breach without a metric is about. `severity` is how
    urgent it is, never more than its rule says; None: as the rule says.
    """

    labels: dict[str, str]
    at: datetime
    reading: Reading
    patience: Patience = field(default_factory=Patience)
    since: datetime | None = None
    metric: str = ""
    q: float = 0.0
    value: float | None = None
    threshold: float | None = None
    before_s: float | None = None
    relative_error: float = RELATIVE_ERROR  # Of the observed and the earlier quantile.
    summary: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    stage: str = ""
    severity: Severity | None = None
