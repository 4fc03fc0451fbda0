"""Callbacks over HTTP: no token, but a signature over every byte. They acknowledge, and nothing else."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request

from controlplane.alerts.endpoints import AlertParts
from controlplane.alerts.tables import DestinationRow, place_of
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import (
    BadRequest,
    Conflict,
    NotFound,
    Overloaded,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from controlplane.db.ids import PathId
from controlplane.db.request_parts import address_of
from controlplane.inbound import callbacks
from controlplane.inbound.callback_bodies import Acknowledged, of_pagerduty, of_slack
from controlplane.inbound.callback_signatures import (
    PAGERDUTY_WINDOW_S,
    SLACK_WINDOW_S,
    pagerduty_signed,
    slack_off_s,
    slack_signed,
)
from controlplane.keys import Undecryptable

router = APIRouter(prefix="/api/v1", tags=["inbound"])

MOST_BYTES = 64 << 10
SLACK = (DestinationKind.SLACK.value, DestinationKind.SLACK_APP.value)
PAGERDUTY = (DestinationKind.PAGERDUTY.value,)

Service = Annotated[AlertParts, Depends(AlertParts.given)]
MAY_FAIL = answers(Unauthenticated, TooLarge, Overloaded, Conflict, BadRequest, NotFound, Unavailable)


async def raw_body(request: Request, service: Service) -> bytes:
    """Raises `Overloaded` for an address that asks too often, `TooLarge`."""
    service.callback_attempts.note(address_of(request), service.clock())
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise TooLarge(f"a callback has at most {MOST_BYTES} bytes")
    return bytes(body)


Raw = Annotated[bytes, Depends(raw_body)]
SlackSignature = Annotated[str, Header(max_length=2048, description="v0= and the HMAC of time and body, by Slack")]
SlackTime = Annotated[str, Header(max_length=2048, description="when Slack signed it, seconds since 1970")]
PagerDutySignature = Annotated[str, Header(max_length=2048, description="v1= and the HMAC of the body, one or several")]


@router.post("/callbacks/slack/{destination_id}", status_code=204, responses=MAY_FAIL)
def slack_callback(
    destination_id: PathId,
    body: Raw,
    service: Service,
    x_slack_signature: SlackSignature = "",
    x_slack_request_timestamp: SlackTime = "",
) -> None:
    """Slack's interactivity request URL: its button acknowledges. Signed with the app's signing secret (v0)."""
    now = service.clock()

    def is_signed(secret: str) -> bool:
        return slack_signed(secret, body, x_slack_request_timestamp, x_slack_signature)

    _check(service, destination_id, SLACK, is_signed)
    off_s = slack_off_s(x_slack_request_timestamp, now.timestamp())
    if off_s > SLACK_WINDOW_S:
        raise Unauthenticated(
            f"this callback was signed {off_s:.0f} s from now by this machine's clock, and {SLACK_WINDOW_S:.0f} s are "
            "taken at most: press again, or compare the clock",
            field="X-Slack-Request-Timestamp",
        )
    _take(service, destination_id, x_slack_signature.encode(), of_slack(body), now)


@router.post("/callbacks/pagerduty/{destination_id}", status_code=204, responses=MAY_FAIL)
def pagerduty_callback(
    destination_id: PathId, body: Raw, service: Service, x_pagerduty_signature: PagerDutySignature = ""
) -> None:
    """PagerDuty's webhook (version 3): `incident.acknowledged` acknowledges here, too; other events are passed over."""
    now = service.clock()
    _check(service, destination_id, PAGERDUTY, lambda secret: pagerduty_signed(secret, body, x_pagerduty_signature))
    said = of_pagerduty(body)
    if said is not None and said.at is not None and abs(now - said.at) > timedelta(seconds=PAGERDUTY_WINDOW_S):
        raise Unauthenticated("this callback is too old", field="event.occurred_at")
    _take(service, destination_id, body, said, now)


def _check(service: AlertParts, destination_id: int, kinds: tuple[str, ...], is_signed: Callable[[str], bool]) -> None:
    """Raises `Unauthenticated`, in the same words whether there is such a destination or not."""
    secret = _secret_of(service, destination_id, kinds)
    genuine = is_signed(secret or "nobody knows this one")
    if secret is None or not genuine:
        raise Unauthenticated("this callback is not signed with the destination's callback secret", field="signature")


def _secret_of(service: AlertParts, destination_id: int, kinds: tuple[str, ...]) -> str | None:
    with service.database.read_session() as session:
        row = session.get(DestinationRow, destination_id)
        if row is None or row.kind not in kinds or row.callback_secret is None or not row.enabled:
            return None
        try:
            return service.keyring.decrypt(place_of(destination_id, "callback_secret"), row.callback_secret)
        except Undecryptable:
            return None


def _take(service: AlertParts, destination_id: int, signed: bytes, said: Acknowledged | None, now: datetime) -> None:
    if said is None:
        return
    with service.database.session() as session:
        if callbacks.is_new(session, signed, now):
            source = callbacks.source_of(session, destination_id)
            callbacks.acknowledge(session, said, source, now, service.public_url)
