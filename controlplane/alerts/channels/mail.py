"""E-mail: one message an alert's letter, all letters of an alert in one thread (References, RFC 5322)."""

import hashlib
import json
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import ClassVar
from urllib.parse import urlsplit

from controlplane.alerts.channels.channel import (
    SENT,
    Address,
    Channel,
    Letter,
    MailRequest,
    Notification,
    Outcome,
    Status,
    Verdict,
)
from controlplane.alerts.channels.wording import cut, cut_bytes, one_line, text_of, title_of
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.outgoing import Answer

PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
MOST_SUBJECT, MOST_TEXT_BYTES = 200, 256 << 10
_NOT_THE_MESSAGE = frozenset({530, 534, 535, 538, 550, 551, 553})
"""Of the 5xx: it wants a login, or has no such mailbox now. Both are mended over there."""


class Mail(Channel):
    """SMTP's codes (RFC 5321): 2xx taken, 4xx later, 5xx never."""

    kind: ClassVar = DestinationKind.EMAIL
    tells: ClassVar = frozenset(Status)

    def render(self, notification: Notification) -> str:
        alert = notification.alert
        told = {
            "from": notification.sender or "",
            "to": list(notification.recipients),
            "subject": cut(title_of(notification), MOST_SUBJECT),
            "text": cut_bytes(f"{text_of(notification)}\n\n{notification.link}\n", MOST_TEXT_BYTES),
            "thread": f"{alert.fingerprint}.{int(alert.started_at.timestamp())}",
            "date": format_datetime(notification.at.astimezone(UTC)),
            "urgent": alert.severity.value == "page" and notification.status is Status.FIRING,
        }
        return json.dumps(told, ensure_ascii=False)

    def request(self, letter: Letter, address: Address, now: datetime) -> MailRequest:
        told = json.loads(letter.body)
        parts = urlsplit(address.url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("no mail server's address, as in smtp://mail.example:587")
        port = parts.port or PORTS[parts.scheme]
        sender, recipients = parseaddr(told["from"])[1], tuple(parseaddr(one)[1] for one in told["to"])
        message = _message(told, letter, sender.rpartition("@")[2] or "tailwright").as_bytes()
        return MailRequest(
            parts.scheme, parts.hostname, port, address.login, address.secret, sender, recipients, message
        )

    def answered(self, answer: Answer) -> Verdict:
        if answer.is_success:
            return SENT
        never = 500 <= answer.status < 600 and answer.status not in _NOT_THE_MESSAGE
        return Verdict(Outcome.REFUSED if never else Outcome.RETRY, f"answered {answer.status}")


def is_mailbox(text: str) -> bool:
    """`name@host`, also as `Somebody <name@host>`; nothing in it can begin another header or another recipient."""
    name, at, host = parseaddr(text)[1].rpartition("@")
    plain = text.isascii() and text.isprintable() and "," not in text and ";" not in text
    return bool(name and at and host and plain and " " not in name + host and not name.startswith("-"))


def _message(told: dict[str, str], letter: Letter, domain: str) -> EmailMessage:
    """The same at each attempt: its Message-ID is of the letter's key, so that one taken twice is known for one."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = one_line(told["from"]), ", ".join(one_line(one) for one in told["to"])
    message["Subject"], message["Date"] = one_line(told["subject"]), told["date"]
    message["Message-ID"] = f"<{hashlib.sha256(letter.idempotency_key.encode()).hexdigest()[:32]}@{domain}>"
    message["References"] = message["In-Reply-To"] = f"<{told['thread']}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Tailwright-Fingerprint"] = letter.fingerprint
    if told["urgent"]:
        message["X-Priority"] = "1"
    message.set_content(told["text"])
    return message
