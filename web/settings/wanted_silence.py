"""What the form of a silence says, as the API takes it: labels and patterns a line each, how long, and why. Pure."""

from collections.abc import Mapping
from datetime import datetime

from controlplane.contract.bodies.alerts import SilenceCreate
from controlplane.contract.errors import BadRequest
from web.frame.time_range import duration
from web.settings.form_fields import said_of
from web.settings.routing_fields import silenced_of

LENGTHS = {"30m": "30 minutes", "2h": "2 hours", "8h": "8 hours", "1d": "a day", "7d": "a week"}
"""How long a silence may be asked for."""
USUAL = {"alerts_with": "", "lasts": "2h", "reason": ""}
"""What the form of a new one says."""
RENAMED = {"matchers": "alerts_with", "patterns": "alerts_with", "ends_at": "lasts", "comment": "reason"}
"""Where the form has what the API calls so."""


def wanted_silence(fields: Mapping[str, str], now: datetime) -> SilenceCreate:
    """Raises `BadRequest` that names the field."""
    held, ends_at = silenced_of(fields["alerts_with"], "alerts_with"), end_of(fields["lasts"], now)
    return SilenceCreate(**held.model_dump(), ends_at=ends_at, comment=why_of(fields["reason"]))


def end_of(lasts: str, now: datetime) -> datetime:
    """Raises `BadRequest`."""
    if lasts not in LENGTHS:
        raise BadRequest(f"lasts: wants one of {', '.join(LENGTHS)}", field="lasts")
    return now + duration(lasts, "lasts")


def why_of(reason: str) -> str:
    """Raises `BadRequest`."""
    return said_of(reason, "reason", "say why it is silenced")
