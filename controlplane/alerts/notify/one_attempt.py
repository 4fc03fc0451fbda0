"""One attempt to hand a letter over, by whichever protocol its destination speaks. Never raises for what others do."""

import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import httpx

from controlplane.alerts.channels.channel import Address, HttpRequest, Letter, MailRequest, Outcome, Verdict
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.contract.retry import retry_after_s
from controlplane.contract.shown_url import without
from controlplane.outgoing import (
    AddressPolicy,
    Answer,
    Envelope,
    MailError,
    Server,
    exchange,
    hand_over,
    new_client,
)

DEADLINE_S = 10.0
"""For the whole of one attempt. Well below the lease: nobody else begins a letter while it is still under way."""
MOST_ERROR = 300
TLS: dict[str, Literal["starttls", "tls", "none"]] = {"smtp": "starttls", "smtps": "tls", "smtp+plain": "none"}


@dataclass(frozen=True)
class Attempt:
    """What came of one attempt: `error` None when it was taken."""

    outcome: Outcome = Outcome.SENT
    error: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Carriers:
    """What letters go by. mail_trust: whom mail servers' certificates must be of; None: the public authorities."""

    http: httpx.Client
    policy: AddressPolicy
    mail_trust: ssl.SSLContext | None = None

    @classmethod
    def new(cls, policy: AddressPolicy) -> "Carriers":
        return cls(new_client(DEADLINE_S, policy), policy)

    def close(self) -> None:
        self.http.close()


def attempt(carriers: Carriers, letter: Letter, address: Address, now: datetime) -> Attempt:
    """Try once."""
    channel = CHANNELS[letter.kind]
    try:
        request = channel.request(letter, address, now)
        answer = _carried(carriers, request, channel.reads_bytes)
    except (httpx.HTTPError, httpx.InvalidURL, MailError, ValueError) as error:
        return Attempt(Outcome.RETRY, _said(f"{type(error).__name__}: {error}", address))
    verdict: Verdict = channel.answered(answer)
    if verdict.outcome is Outcome.SENT:
        return Attempt()
    pause_s = retry_after_s(answer.headers.get("Retry-After"), now)
    return Attempt(verdict.outcome, _said(verdict.error or "", address), pause_s)


def _carried(carriers: Carriers, request: HttpRequest | MailRequest, most_bytes: int) -> Answer:
    if isinstance(request, HttpRequest):
        return exchange(
            carriers.http,
            request.url,
            request.content,
            request.headers,
            deadline_s=DEADLINE_S,
            most_bytes=most_bytes,
        )
    server = Server(
        request.host, request.port, TLS[request.scheme], request.login, request.password, carriers.mail_trust
    )
    envelope = Envelope(request.sender, request.recipients, request.message)
    return hand_over(server, envelope, carriers.policy, deadline_s=DEADLINE_S)


def _said(error: str, address: Address) -> str:
    """Without what is secret in the address."""
    said = without(address.url, error)
    for secret in (address.secret, address.login):
        if secret and len(secret) > 3:
            said = said.replace(secret, "***")
    return said[:MOST_ERROR]
