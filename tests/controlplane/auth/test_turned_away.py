"""Who was refused is counted by reason, and told."""

import logging

import pytest
from starlette.requests import HTTPConnection

from controlplane.auth.turned_away import Reason, TurnedAway
from controlplane.auth.watch.security_log import PERIOD_S, SecurityLog
from controlplane.contract.errors import BadRequest, Forbidden, NotFound, TailwrightError, TokenExpired, Unauthenticated


def connection(authorization: str = "", address: str | None = "10.0.0.9") -> HTTPConnection:
    headers = [(b"authorization", authorization.encode())] if authorization else []
    client = None if address is None else (address, 1)
    return HTTPConnection(
        {"type": "http", "method": "GET", "path": "/api/v1/nodes", "headers": headers, "client": client}
    )


@pytest.mark.parametrize(
    ("authorization", "error", "reason"),
    [
        ("", Unauthenticated("send a token"), Reason.NO_TOKEN),
        ("Bearer x", Unauthenticated("unknown"), Reason.UNKNOWN_TOKEN),
        ("Bearer x", TokenExpired("has expired"), Reason.EXPIRED),
        ("Bearer x", Forbidden("needs admin"), Reason.FORBIDDEN),
        ("Bearer x", NotFound("no such node"), None),
    ],
)
def test_a_refusal_has_its_reason(authorization: str, error: TailwrightError, reason: Reason | None) -> None:
    door = TurnedAway()
    door.note(connection(authorization), error)
    assert dict(door.counts) == ({} if reason is None else {reason: 1})


def test_the_log_has_who_where_and_why_and_how_often(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    log = SecurityLog(lambda: now_s)
    door = TurnedAway(log)
    with caplog.at_level(logging.INFO):
        for _ in range(300):
            door.note(connection("Bearer x"), Unauthenticated("unknown"))
        door.note(connection(address=None), Unauthenticated("none"))
        door.note(connection("Bearer x"), BadRequest("name: 'hunter2' is too short", field="body.name"))
        door.note_session()
        now_s = PERIOD_S
        log.tell_due()
    assert caplog.messages == [
        "refused: reason=unknown_token actor='-' holder=- address=10.0.0.9 route='GET /api/v1/nodes'",
        "refused: reason=no_token actor='-' holder=- address=unknown route='GET /api/v1/nodes'",
        "input refused: fields='body.name' actor='-' holder=- address=10.0.0.9 route='GET /api/v1/nodes'",
        "refused: reason=unknown_token actor='-' holder=- address=dashboard route='-'",
        "refused: reason=unknown_token actor='-' holder=- address=10.0.0.9 route='GET /api/v1/nodes' again=299",
    ]
    assert door.counts == {Reason.UNKNOWN_TOKEN: 301, Reason.NO_TOKEN: 1}
