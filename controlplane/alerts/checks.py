"""Checks of what a person may write in a rule, a destination or a silence: each error names its field and the mend."""

from datetime import datetime
from urllib.parse import urlsplit

import httpx

from controlplane.alerts.conditions import KINDS
from controlplane.contract.bodies.alerts import AlertRuleCreate, DestinationCreate, SilenceCreate
from controlplane.contract.errors import BadRequest


def check_rule(wanted: AlertRuleCreate) -> None:
    """Raises `BadRequest` for what the types alone cannot refuse."""
    KINDS[type(wanted.condition)].check(wanted.condition)


def check_destination(wanted: DestinationCreate) -> None:
    """A URL that cannot be called is refused here; an empty secret would look signed and protect nothing."""
    try:
        host = urlsplit(wanted.url).hostname and httpx.URL(wanted.url).host
    except (httpx.InvalidURL, ValueError):
        host = ""
    if not host:
        raise BadRequest("url: is not a URL with a host, as in https://example.org/hook", field="url")
    if wanted.secret is not None and len(wanted.secret) < 8:
        raise BadRequest("secret: at least 8 characters, or null for unsigned deliveries", field="secret")


def check_silence(wanted: SilenceCreate, now: datetime) -> None:
    if wanted.ends_at.tzinfo is None:
        raise BadRequest("ends_at: give a timezone, as in 2030-01-01T00:00:00Z", field="ends_at")
    if wanted.ends_at <= now:
        raise BadRequest(f"ends_at: {wanted.ends_at.isoformat()} is not in the future", field="ends_at")
