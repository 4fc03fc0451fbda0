"""The ledger: one append-only record of who or what did what, and on what evidence."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel


class LedgerEntry(BaseModel):
    """`kind` is "domain.verb": revision.created, rollout.promoted, alert.fired, study.finished, node.enrolled ..."""

    id: int
    time: datetime
    actor: str  # Token name, "tuner", or "trimtab" for the service itself.
    kind: str
    subject: str  # "rollout/3", "node/gpu-1", ...
    message: str
    evidence: dict[str, Any] = {}
