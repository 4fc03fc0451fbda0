"""Alertmanager's own API, version 2 (its OpenAPI document, POST /api/v2/alerts): routes, groups and silences are its.

Alertmanager knows an alert by its labels and takes one for over that nobody repeats within its `resolve_timeout`,
unless it was told an end. So "firing" says an end far off, and "resolved" the true one; a test says its own.
"""

import base64
import json
import re
from datetime import datetime, timedelta
from typing import ClassVar

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
from controlplane.alerts.channels.wording import cut
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.channels.destination_kinds import DestinationKind

OPEN_FOR = timedelta(days=365)
FINGERPRINT = "tailwright_fingerprint"
"""A label: two rules of one name are two alerts over there, too."""
LONGEST = 4096
"""Characters of an annotation; it takes more, what it passes them on to mostly does not."""
LONGEST_LABEL = 1024
PATH = "/api/v2/alerts"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


class Alertmanager(Channel):
    """400 finds fault with the alert: each other answer may be of a proxy, or of one that is starting."""

    kind: ClassVar = DestinationKind.ALERTMANAGER
    refuses: ClassVar = frozenset({400, 413, 422})

    def render(self, notification: Notification) -> str:
        alert = notification.alert
        over = notification.status is Status.RESOLVED
        annotations = annotations_of(alert)
        if notification.title is not None:
            annotations["title"] = notification.title
        if notification.text is not None:
            annotations["description"] = notification.text
        told = {
            "labels": _labels(alert),
            "annotations": {name: cut(text, LONGEST) for name, text in annotations.items()},
            "startsAt": alert.started_at.isoformat(),
            "endsAt": (alert.resolved_at or (notification.at if over else notification.at + OPEN_FOR)).isoformat(),
            "generatorURL": notification.link,
        }
        return json.dumps([told], ensure_ascii=False, separators=(",", ":"))

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        base = address.url.rstrip("/")
        url = base if base.endswith(PATH) else base + PATH
        return HttpRequest(url, letter.body.encode(), {**JSON_HEADERS, **_let_in(address)})


def _labels(alert: Alert) -> dict[str, str]:
    """Names are made of letters, digits and underscores over there, and an empty value is none."""
    named = {_NO_NAME.sub("_", name): cut(value, LONGEST_LABEL) for name, value in labels_of(alert).items() if value}
    return {(f"_{name}" if name[:1].isdigit() else name): value for name, value in named.items() if name} | {
        FINGERPRINT: alert.fingerprint
    }


def _let_in(address: Address) -> dict[str, str]:
    if not address.secret:
        return {}
    if address.login is None:
        return {"Authorization": f"Bearer {address.secret}"}
    basic = base64.b64encode(f"{address.login}:{address.secret}".encode()).decode()
    return {"Authorization": f"Basic {basic}"}
