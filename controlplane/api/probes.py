"""/healthz and /readyz, without a token.

Guarantee: /readyz is 200 only when reports are accepted and durable: the telemetry store is ready, its last commits
went well, and the database has taken a write within the last `PROBE_FRESH_S` seconds. What is degraded beside that is
told, and does not change it.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from controlplane.api.ledger_endpoints import LedgerParts
from controlplane.contract.bodies.health import Health, ReadyReport
from controlplane.contract.clock import Clock
from controlplane.db.database import Database
from controlplane.db.disk_space import DiskSpace
from controlplane.db.fault import named
from controlplane.db.probe import prove_write
from controlplane.ledger.chain import Head
from controlplane.ledger.inspection import newest
from controlplane.ledger.signing import signed
from controlplane.serving.tls import ServerTls
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.http.telemetry_parts import TelemetryParts

logger = logging.getLogger(__name__)
router = APIRouter(tags=["health"])

PROBE_FRESH_S = 1.0


class Readiness:
    """The write probe's last outcome. Anybody may ask for /readyz, so it writes once a second at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tried_at: float | None = None
        self._error = ""
        self.head: Head | None = None
        """The ledger's, at that time; None where it could not be read."""

    def database_error(self, database: Database, clock: Clock) -> str:
        """Empty when the database takes writes, else its fault's name, or the kind of its error."""
        with self._lock:
            if self._tried_at is None or time.monotonic() - self._tried_at > PROBE_FRESH_S:
                try:
                    prove_write(database, clock())
                    self.head = newest(database)
                    self._error = ""
                except Exception as error:
                    logger.exception("the database takes no write")
                    self._error, self.head = named(error), None
                self._tried_at = time.monotonic()
            return self._error


@dataclass(frozen=True, kw_only=True)
class ProbeParts(TelemetryParts, LedgerParts):
    """What the probes look at. stop: set once the service is told to end; ticks: of the background work, by name; tls:
    None without TLS."""

    stop: threading.Event
    readiness: Readiness
    disk: DiskSpace
    exporters: Sequence[Exporter]
    ticks: Callable[[], Mapping[str, Mapping[str, Any]]]
    tls: ServerTls | None


Probed = Annotated[ProbeParts, Depends(ProbeParts.given)]


@router.get("/healthz")
def healthz() -> Health:
    """The process is alive."""
    return Health()


@router.get("/readyz", responses={503: {"model": ReadyReport, "description": "not ready; the same body"}})
def readyz(service: Probed, response: Response) -> ReadyReport:
    """200 when reports are accepted and durable, else 503; the body says what is missing."""
    database_error = service.readiness.database_error(service.database, service.clock)
    telemetry_fault = service.telemetry.write_fault() if service.telemetry.ready() else "not ready"
    stopping = service.stop.is_set()
    ready = not telemetry_fault and not database_error and not stopping
    degraded = [f"export_{exporter.name}" for exporter in service.exporters if exporter.error]
    if service.telemetry.frames.fault():  # Its text stays in the log: anybody may ask.
        degraded.append("frames_unavailable")
    if service.disk.low():
        degraded.append("disk_low")
    ticks = service.ticks()
    if any(tick["failing"] for tick in ticks.values()):
        degraded.append("background_task_failing")
    if service.tls is not None and service.tls.faults:
        degraded.append("tls_file_unusable")
    if service.tls is not None and service.tls.list_has_ended:
        degraded.append("revocation_list_ended")
    head = service.readiness.head
    response.status_code = 200 if ready else 503
    return ReadyReport.model_validate(
        {
            "status": "ready" if ready else "stopping" if stopping else "not ready",
            "database": database_error or "writable",
            "telemetry": telemetry_fault or "ready",
            "background": ticks,
            "exports": {exporter.name: exporter.report() for exporter in service.exporters},
            "degraded": degraded,
            "ledger": None if head is None else signed(head, service.ledger_key),
        }
    )
