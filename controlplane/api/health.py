"""/healthz and /readyz, without a token.

Guarantee: /readyz is 200 only when reports are accepted and durable: the telemetry store is ready and the database has
taken a write within the last `PROBE_FRESH_S` seconds. What is degraded beside that is told, and does not change it.
"""

import logging
import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from controlplane.db.probe import prove_write

logger = logging.getLogger(__name__)
router = APIRouter(tags=["health"])

PROBE_FRESH_S = 1.0


class Readiness:
    """The write probe's last outcome. Anybody may ask for /readyz, so it writes once a second at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tried_at: float | None = None
        self._error = ""

    def database_error(self, state: Any) -> str:
        """Empty when the database takes writes, else the kind of its error."""
        with self._lock:
            if self._tried_at is None or time.monotonic() - self._tried_at > PROBE_FRESH_S:
                try:
                    prove_write(state.database, state.clock())
                    self._error = ""
                except Exception as error:
                    logger.exception("the database takes no write")
                    self._error = type(error).__name__
                self._tried_at = time.monotonic()
            return self._error


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": dict[str, Any], "description": "not ready; the same body"}})
def readyz(request: Request) -> JSONResponse:
    """200 when reports are accepted and durable, else 503; the body says what is missing."""
    state = request.app.state
    readiness: Readiness = state.readiness
    database_error = readiness.database_error(state)
    telemetry_ready = bool(state.telemetry.ready())
    stopping = state.stop.is_set()
    ready = telemetry_ready and not database_error and not stopping
    degraded = [f"export_{exporter.name}" for exporter in state.exporters if exporter.error]
    if state.telemetry.frames.fault():  # Its text stays in the log: anybody may ask.
        degraded.append("frames_unavailable")
    body = {
        "status": "ready" if ready else "stopping" if stopping else "not ready",
        "database": database_error or "writable",
        "telemetry": "ready" if telemetry_ready else "not ready",
        "background": state.background.report(),
        "exports": {exporter.name: exporter.report() for exporter in state.exporters},
        "degraded": degraded,
    }
    return JSONResponse(body, 200 if ready else 503)
