"""Opsgenie's Alert API: an alert's alias is its fingerprint, so what is told twice counts up."""

import json
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from controlplane.alerts.channels.channel import (
    JSON_HEADERS,
    Address,
    Channel,
    HttpRequest,
    Letter,
    Notification,
    Status,
)
from controlplane.alerts.channels.payload import labels_of
from controlplane.alerts.channels.wording import cut, text_of, title_of
from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.channels.destination_kinds import DestinationKind

PRIORITIES = {Severity.PAGE: "P1", Severity.TICKET: "P3"}
MOST_MESSAGE, MOST_DESCRIPTION, MOST_DETAILS, MOST_NOTE = 130, 15_000, 8_000, 25_000
"""Characters, of Opsgenie's Alert API reference."""
VERBS = {Status.ACKNOWLEDGED: "acknowledge", Status.RESOLVED: "close"}


class Opsgenie(Channel):
    """202 is its yes: it works the request off later. 422 says that the alert is none."""

    kind: ClassVar = DestinationKind.OPSGENIE
    tells: ClassVar = frozenset(Status)
    refuses: ClassVar = frozenset({400, 413, 422})

    def render(self, notification: Notification) -> str:
        alert = notification.alert
        if notification.status is not Status.FIRING:
            note = {"source": "Tailwright", "note": cut(text_of(notification), MOST_NOTE)}
            return json.dumps(note | ({"user": notification.by[:100]} if notification.by else {}), ensure_ascii=False)
        told: dict[str, Any] = {
            "message": cut(title_of(notification), MOST_MESSAGE),
            "alias": alert.fingerprint,
            "description": cut(f"{text_of(notification)}\n{notification.link}", MOST_DESCRIPTION),
            "details": _within(labels_of(alert)),
            "entity": alert.labels.get("node") or alert.labels.get("pool") or "",
            "priority": PRIORITIES[alert.severity],
            "source": "Tailwright",
            "tags": ["tailwright", alert.severity.value],
        }
        return json.dumps(told, ensure_ascii=False)

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        url = address.url.rstrip("/")
        if letter.status in VERBS:
            url = f"{url}/{quote(letter.fingerprint, safe='')}/{VERBS[letter.status]}?identifierType=alias"
        return HttpRequest(
            url, letter.body.encode(), {**JSON_HEADERS, "Authorization": f"GenieKey {address.secret or ''}"}
        )


def _within(labels: dict[str, str]) -> dict[str, str]:
    """The labels that fit into its limit for all details together."""
    kept: dict[str, str] = {}
    room = MOST_DETAILS
    for name, value in labels.items():
        room -= len(name) + len(value)
        if room < 0:
            break
        kept[name] = value
    return kept
