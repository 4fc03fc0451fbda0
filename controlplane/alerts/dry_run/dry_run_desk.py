"""Where rules are tried over the past: one at a time, so that trying costs the service no more than a bounded part."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.alerts.dry_run.dry_run import BUDGET_S, dry_run, past_of
from controlplane.contract.bodies.alerts import DryRun, DryRunCreate
from controlplane.contract.errors import Overloaded
from controlplane.db.database import Database
from controlplane.telemetry import TelemetryReader


@dataclass(frozen=True)
class DryRunDesk:
    """levels_s: how long telemetry keeps windows of each width, seconds both."""

    database: Database
    telemetry: TelemetryReader
    levels_s: Mapping[int, float]
    _taken: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, wanted: DryRunCreate, now: datetime) -> DryRun:
        """Raises `Overloaded` while another is tried."""
        past = past_of(wanted, now, self.levels_s)
        if not self._taken.acquire(blocking=False):
            raise Overloaded("another rule is being tried over the past; try again soon", retry_after_s=BUDGET_S / 4)
        try:
            return dry_run(self.database, self.telemetry, wanted.rule, past)
        finally:
            self._taken.release()
