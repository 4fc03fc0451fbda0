"""What telemetry's routes are served with."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from controlplane.auth.token_cache import AuthParts
from controlplane.telemetry.queries.feeds import Streams
from controlplane.telemetry.store import TelemetryStore


@dataclass(frozen=True, kw_only=True)
class TelemetryParts(AuthParts):
    telemetry: TelemetryStore
    streams: Streams


Telemetry = Annotated[TelemetryParts, Depends(TelemetryParts.given)]
