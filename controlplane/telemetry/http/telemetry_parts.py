"""What telemetry's routes are served with."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends

from controlplane.auth.token_cache import AuthParts
from controlplane.telemetry.queries.budget import QueryDesk
from controlplane.telemetry.queries.feeds import Streams
from controlplane.telemetry.store import TelemetryStore


@dataclass(frozen=True, kw_only=True)
class TelemetryParts(AuthParts):
    """metrics_token: whose bearer may scrape /metrics; None: anybody."""

    telemetry: TelemetryStore
    streams: Streams
    desk: QueryDesk = field(default_factory=QueryDesk)
    metrics_token: str | None = field(default=None, repr=False)


Telemetry = Annotated[TelemetryParts, Depends(TelemetryParts.given)]
