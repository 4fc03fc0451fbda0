"""Microsoft Teams: the webhook of a workflow ("Post to a channel when a webhook request is received"), which takes an
adaptive card (version 1.4) of at most 28 KB."""

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
from controlplane.alerts.channels.payload import labels_of
from controlplane.alerts.channels.wording import cut, cut_bytes, text_of, title_of
from controlplane.contract.channels.destination_kinds import DestinationKind

MOST_TITLE, MOST_TEXT_BYTES, MOST_FACTS, MOST_FACT = 256, 8 << 10, 20, 200
COLOURS = {Status.FIRING: "Attention", Status.ACKNOWLEDGED: "Warning", Status.RESOLVED: "Good"}


class Teams(Channel):
    """202 is its yes."""

    kind: ClassVar = DestinationKind.TEAMS
    tells: ClassVar = frozenset(Status)
    refuses: ClassVar = frozenset({400, 413})

    def render(self, notification: Notification) -> str:
        attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None}
        return json.dumps({"type": "message", "attachments": [{**attachment, "content": _card(notification)}]})

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        return HttpRequest(address.url, letter.body.encode(), JSON_HEADERS)

    def escape(self, text: str) -> str:
        return escaped(text)


def escaped(text: str) -> str:
    """A card's text blocks are Markdown: a link in a label is shown as it is written."""
    for sign in ("\\", "[", "]", "*", "_"):
        text = text.replace(sign, f"\\{sign}")
    return text


def _card(notification: Notification) -> dict[str, Any]:
    own = notification.text is not None
    text = text_of(notification) if own else escaped(text_of(notification))
    facts = list(labels_of(notification.alert).items())[:MOST_FACTS]
    return {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            _block(escaped(cut(title_of(notification), MOST_TITLE)), weight="Bolder", size="Medium")
            | {"color": COLOURS[notification.status]},
            _block(cut_bytes(text, MOST_TEXT_BYTES).replace("\n", "\n\n")),
            {"type": "FactSet", "facts": [{"title": cut(n, MOST_FACT), "value": cut(v, MOST_FACT)} for n, v in facts]},
        ],
        "actions": [{"type": "Action.OpenUrl", "title": "Open in Tailwright", "url": notification.link}],
    }


def _block(text: str, **more: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": text, "wrap": True, **more}
