"""Slack: an incoming webhook, or chat.postMessage with an app's token; a button acknowledges where the app may say so.

Lengths are those of Slack's block reference (header 150, section 3,000 characters). `&`, `<` and `>` are escaped in
whatever an alert says: no label of a node can call the whole channel, or show a link that leads elsewhere.
"""

import json
import re
from datetime import datetime
from typing import Any, ClassVar

from controlplane.alerts.channels.channel import (
    JSON_HEADERS,
    SENT,
    Address,
    Channel,
    HttpRequest,
    Letter,
    Notification,
    Outcome,
    Status,
    Verdict,
)
from controlplane.alerts.channels.wording import cut, text_of, title_of
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.outgoing import Answer

MOST_TITLE, MOST_TEXT = 150, 3000
ACKNOWLEDGE = "tailwright_acknowledge"
"""The button's action: its value is the alert's number."""
_WORD = re.compile(r"[a-z_]{1,64}")
_REFUSED = {"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text"}
"""chat.postMessage's errors that find fault with the message."""


def escaped(text: str) -> str:
    """As Slack's mrkdwn wants it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def message_of(notification: Notification) -> dict[str, Any]:
    """`text` is what a notification on a phone shows, `blocks` what stands in the channel."""
    title = cut(title_of(notification), MOST_TITLE)
    own = notification.text is not None  # A template's text is escaped where it inserts something.
    text = text_of(notification) if own else escaped(text_of(notification))
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": title or " "}},
        {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, MOST_TEXT) or " "}},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": f"<{notification.link}|Open in Tailwright>"}]},
    ]
    if notification.acknowledges and notification.status is Status.FIRING and notification.alert.id:
        blocks.append({"type": "actions", "elements": [_button(notification.alert.id)]})
    return {"text": escaped(title), "blocks": blocks}


def _button(alert_id: int) -> dict[str, Any]:
    words = {"type": "plain_text", "text": "Acknowledge"}
    return {"type": "button", "action_id": ACKNOWLEDGE, "value": str(alert_id), "text": words}


class SlackWebhook(Channel):
    """An incoming webhook answers 400 to a payload that is none, 403, 404 and 410 where it was taken away."""

    kind: ClassVar = DestinationKind.SLACK
    tells: ClassVar = frozenset(Status)
    refuses: ClassVar = frozenset({400, 413})

    def render(self, notification: Notification) -> str:
        return json.dumps(message_of(notification), ensure_ascii=False)

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        return HttpRequest(address.url, letter.body.encode(), JSON_HEADERS)

    def escape(self, text: str) -> str:
        return escaped(text)


class SlackApp(SlackWebhook):
    """chat.postMessage answers 200 to everything: whether it was posted stands in the body."""

    kind: ClassVar = DestinationKind.SLACK_APP
    reads_bytes: ClassVar = 64 << 10

    def render(self, notification: Notification) -> str:
        channel = {"channel": notification.recipients[0] if notification.recipients else ""}
        return json.dumps({**channel, **message_of(notification), "unfurl_links": False}, ensure_ascii=False)

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        headers = {**JSON_HEADERS, "Content-Type": "application/json; charset=utf-8"}
        return HttpRequest(
            address.url, letter.body.encode(), {**headers, "Authorization": f"Bearer {address.secret or ''}"}
        )

    def answered(self, answer: Answer) -> Verdict:
        if not answer.is_success:
            return super().answered(answer)
        try:
            told = json.loads(answer.body)
        except ValueError:
            return Verdict(Outcome.RETRY, "answered something else than Slack does")
        if not isinstance(told, dict):
            return Verdict(Outcome.RETRY, "answered something else than Slack does")
        if told.get("ok") is True:
            return SENT
        error = str(told.get("error"))
        said = f"Slack says {error}" if _WORD.fullmatch(error) else "Slack says it was not posted"
        return Verdict(Outcome.REFUSED if error in _REFUSED else Outcome.RETRY, said)
