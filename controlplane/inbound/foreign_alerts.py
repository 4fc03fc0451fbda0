"""Alerts as Alertmanager (webhook, version 4) and Grafana post them: read leniently, for others' formats grow. Pure.

Guarantee: what is needed is there or the field is named; what is not known is passed over; texts and their number are
bounded, so that no sender can fill the database with one request; a link is an address of the web, or none.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.alerts.channels.wording import cut
from controlplane.contract.errors import BadRequest

MOST_ALERTS, MOST_TEXTS, MOST_NAME, MOST_TEXT, MOST_TOGETHER = 1000, 64, 128, 2048, 4096
"""MOST_TOGETHER: characters of all labels of an alert, and of all its annotations."""
FIRST = ("alertname", "severity", "pool", "node", "instance", "summary", "description", "runbook_url")
"""Kept before all others where not all can be."""
_LINK = re.compile(r"https?://[^\s<>|\"'\\]{1,2000}")


@dataclass(frozen=True)
class ForeignAlert:
    """status: `firing` or `resolved`. fingerprint: the sender's own, or made of the labels. ends_at: when it ended, or
    will unless it is told of again. shortened: whether not all of its texts are there."""

    fingerprint: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    link: str
    starts_at: datetime
    ends_at: datetime | None
    shortened: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "shortened"}


def read(body: bytes, now: datetime) -> list[ForeignAlert]:
    """Raises `BadRequest` that names the field."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("body: is no JSON", field="body") from error
    alerts = message.get("alerts") if isinstance(message, dict) else None
    if not isinstance(alerts, list):
        raise BadRequest("alerts: wants a list, as Alertmanager's webhooks have it", field="alerts")
    if len(alerts) > MOST_ALERTS:
        raise BadRequest(f"alerts: at most {MOST_ALERTS} at once", field="alerts")
    return [_one(alert, f"alerts[{place}]", now) for place, alert in enumerate(alerts)]


def _one(alert: Any, field: str, now: datetime) -> ForeignAlert:
    if not isinstance(alert, dict):
        raise BadRequest(f"{field}: wants an object", field=field)
    status = alert.get("status")
    if status not in ("firing", "resolved"):
        raise BadRequest(f"{field}.status: wants firing or resolved", field=f"{field}.status")
    labels, cut_labels = _texts(alert.get("labels"), f"{field}.labels")
    if not labels:
        raise BadRequest(f"{field}.labels: wants at least one", field=f"{field}.labels")
    annotations, cut_annotations = _texts(alert.get("annotations"), f"{field}.annotations")
    said = alert.get("fingerprint")
    ends = _moment(alert.get("endsAt"), f"{field}.endsAt")
    over = status == "resolved" or (ends is not None and ends <= now)
    return ForeignAlert(
        _storable(said, MOST_NAME) if isinstance(said, str) and said else _made_of(alert["labels"]),
        "resolved" if over else "firing",
        labels,
        annotations,
        _link(alert.get("generatorURL")),
        min(_moment(alert.get("startsAt"), f"{field}.startsAt") or now, now),
        min(ends or now, now) if over else ends,
        cut_labels or cut_annotations,
    )


def _texts(said: Any, field: str) -> tuple[dict[str, str], bool]:
    """At most so many and so long; whether something is missing."""
    if said is None:
        return {}, False
    if not isinstance(said, dict):
        raise BadRequest(f"{field}: wants an object of texts", field=field)
    kept: dict[str, str] = {}
    left, missing = MOST_TOGETHER, False
    for name, text in sorted(said.items(), key=lambda one: one[0] not in FIRST):
        short_name, short = _storable(name, MOST_NAME), _storable(text, MOST_TEXT)
        left -= len(short_name) + len(short)
        if left < 0 or len(kept) == MOST_TEXTS:
            return kept, True
        kept[short_name] = short
        missing = missing or len(str(text)) > MOST_TEXT or len(name) > MOST_NAME
    return kept, missing


def _link(said: Any) -> str:
    return said if isinstance(said, str) and _LINK.fullmatch(said) else ""


def _storable(said: Any, most: int) -> str:
    """Without what no database keeps as text: NUL, and halves of a character."""
    return cut(str(said).replace("\x00", "").encode("utf-8", "replace").decode(), most)


def _moment(said: Any, field: str) -> datetime | None:
    """None for what is not said, and for the year 1, which is how Go says it."""
    if said is None:
        return None
    try:
        found = datetime.fromisoformat(_to_microseconds(str(said)))
    except ValueError as error:
        raise BadRequest(f"{field}: {str(said)[:40]!r} is no time of RFC 3339", field=field) from error
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return None if found.year == 1 else found.astimezone(UTC)


def _to_microseconds(text: str) -> str:
    """Go writes nanoseconds, which Python's clock has not."""
    head, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{head}{dot}{rest[:digits][:6]}{rest[digits:]}"


def _made_of(labels: dict[str, Any]) -> str:
    """Of all of them, those that are not kept too: two alerts stay two."""
    return hashlib.sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:16]
