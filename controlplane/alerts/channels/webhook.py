"""The generic webhook: Alertmanager's webhook format with ours beside it, signed (`contract.signature`)."""

from datetime import datetime
from typing import ClassVar

from controlplane.alerts.channels import payload
from controlplane.alerts.channels.channel import JSON_HEADERS, Address, Channel, HttpRequest, Letter, Notification
from controlplane.contract import signature
from controlplane.contract.channels.destination_kinds import DestinationKind

LEDGER_HEADER = "Tailwright-Ledger-Head"


class Webhook(Channel):
    """Each attempt is signed anew over the same body, and tells the ledger's head. 410 is for good (RFC 9110)."""

    kind: ClassVar = DestinationKind.WEBHOOK
    refuses: ClassVar = frozenset({410})

    def render(self, notification: Notification) -> str:
        return payload.body(
            notification.alert,
            notification.status.value,
            notification.receiver,
            notification.external_url,
            title=notification.title,
            text=notification.text,
        )

    def request(self, letter: Letter, address: Address, now: datetime) -> HttpRequest:
        content = letter.body.encode()
        headers = {
            **JSON_HEADERS,
            "Tailwright-Delivery": str(letter.delivery_id),
            "Idempotency-Key": letter.idempotency_key,
        }
        if letter.ledger_head is not None:
            headers[LEDGER_HEADER] = letter.ledger_head
        if address.secret:
            headers[signature.HEADER] = signature.sign(address.secret, content, int(now.timestamp()))
        return HttpRequest(address.url, content, headers)
