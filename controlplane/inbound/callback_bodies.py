"""What a genuine callback says, as far as it acknowledges an alert; all else it says is passed over. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from controlplane.alerts.channels.slack import ACKNOWLEDGE
from controlplane.alerts.channels.wording import cut, one_line
from controlplane.contract.errors import BadRequest

MOST_NAME = 80


@dataclass(frozen=True)
class Acknowledged:
    """Who looks after which alert: by its number, or by its fingerprint. at: when, where the callback says so."""

    by: str
    alert_id: int | None = None
    fingerprint: str | None = None
    at: datetime | None = None


def of_slack(body: bytes) -> Acknowledged | None:
    """None for any other interaction. Raises `BadRequest`."""
    try:
        payload = json.loads(parse_qs(body.decode(), strict_parsing=True)["payload"][0])
        actions = [one for one in payload.get("actions", []) if one.get("action_id") == ACKNOWLEDGE]
        if payload.get("type") != "block_actions" or not actions:
            return None
        user = payload.get("user", {})
        who = _name(user.get("username") or user.get("name") or user.get("id"))
        return Acknowledged(who, alert_id=_number(actions[0].get("value")))
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise BadRequest("payload: is not an interaction of Slack", field="payload") from error


def of_pagerduty(body: bytes) -> Acknowledged | None:
    """None for any other event. Raises `BadRequest`."""
    try:
        event = json.loads(body)["event"]
        if event["event_type"] != "incident.acknowledged":
            return None
        who = _name((event.get("agent") or {}).get("summary"))
        at = datetime.fromisoformat(str(event["occurred_at"]))
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return Acknowledged(who, fingerprint=str(event["data"]["incident_key"])[:128], at=at)
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise BadRequest("event: is not an event of PagerDuty's webhooks, version 3", field="event") from error


def _name(said: Any) -> str:
    return cut(one_line(str(said or "")), MOST_NAME) or "somebody"


def _number(said: Any) -> int:
    text = str(said)
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise ValueError("no alert's number")
    return int(text)
