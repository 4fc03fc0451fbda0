"""Who was refused is counted by reason, and told once in a while."""

import logging

import pytest
from starlette.requests import HTTPConnection

from controlplane.auth.turned_away import QUIET_S, Reason, TurnedAway
from controlplane.contract.errors import Forbidden, NotFound, TailwrightError, TokenExpired, Unauthenticated


def connection(authorization: str = "", address: str | None = "10.0.0.9") -> HTTPConnection:
    headers = [(b"authorization", authorization.encode())] if authorization else []
    client = None if address is None else (address, 1)
    return HTTPConnection({"type": "http", "path": "/api/v1/nodes", "headers": headers, "client": client})


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


def test_the_log_has_the_address_and_one_line_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    door = TurnedAway(lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(300):
            door.note(connection("Bearer x"), Unauthenticated("unknown"))
        door.note(connection(address=None), Unauthenticated("none"))
        now += QUIET_S
        door.note(connection("Bearer x", "10.0.0.8"), Unauthenticated("unknown"))
    assert caplog.messages == [
        "refused (unknown_token) 10.0.0.9: '/api/v1/nodes'",
        "refused (no_token) unknown: '/api/v1/nodes'",
        "refused (unknown_token) 10.0.0.8: '/api/v1/nodes'; 299 more since the line before",
    ]
    assert door.counts == {Reason.UNKNOWN_TOKEN: 301, Reason.NO_TOKEN: 1}
