"""PagerDuty's Events API, version 2: trigger, acknowledge and resolve, with the fingerprint as dedup_key.

The integration key belongs into the body; the outbox keeps the body without it.
"""

import json
from datetime import datetime
from typing import Any, ClassVar

from controlplane.alerts.channels.channel import (
    JSON_HEADERS,
    Address,
    Channel,
    HttpRequest,
    Letter,
    Notification,
    Status,
)
from controlplane.alerts.channels.payload import annotations_of, labels_of
from controlplane.alerts.channels.wording import cut, cut_bytes, one_line, text_of, title_of
from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.channels.destination_kinds import DestinationKind

ACTIONS = {Status.FIRING: "trigger", Status.ACKNOWLEDGED: "acknowledge", Status.RESOLVED: "resolve"}
SEVERITIES = {Severity.PAGE: "critical", Severity.TICKET: "warning"}
MOST_SUMMARY, MOST_TEXT, MOST_LABEL = 1024, 64 << 10, 1024
"""Characters; the API takes events of at most 512 KB."""


class PagerDuty(Channel):
    """202 is its yes; 400 says that the event is none."""

    kind: ClassVar = DestinationKind.PAGERDUTY
    tells: ClassVar = frozenset(Status)
    refuses: ClassVar = frozenset({400, 413})

    def render(self, notification: Notification) -> str:
        alert = notification.alert
        event: dict[str, Any] = {"event_action": ACTIONS[notification.status], "dedup_key": alert.fingerprint}
        if notification.status is Status.FIRING:
            labels = labels_of(alert)
            event |= {"client": "Tailwright", "client_url": notification.link, "links": [_link(notification)]}
            event["payload"] = {
                "summary": cut(_summary(notification), MOST_SUMMARY),
                "source": labels.get("node") or labels.get("pool") or "tailwright",
                "severity": SEVERITIES[alert.severity],
                "timestamp": alert.started_at.isoformat(),
                "component": labels.get("stage") or labels.get("metric"),
                "group": labels.get("pool"),
                "class": alert.rule,
                "custom_details": {
                    "text": cut_bytes(text_of(notification), MOST_TEXT),
                    "labels": {name: cut(value, MOST_LABEL) for name, value in labels.items()},
                    **{name: cut(value, MOST_LABEL) for name, value in annotations_of(alert).items()},
                },
            }
        return json.dumps(event, ensure_ascii=False)

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        event = {"routing_key": address.secret or "", **json.loads(letter.body)}
        return HttpRequest(address.url, json.dumps(event, ensure_ascii=False).encode(), JSON_HEADERS)


def _summary(notification: Notification) -> str:
    """What stands on the pager: a template's title, else what is wrong."""
    if notification.title is not None:
        return title_of(notification)
    return one_line(notification.alert.summary) or notification.alert.rule


def _link(notification: Notification) -> dict[str, str]:
    return {"href": notification.link, "text": "The alert in Tailwright"}
