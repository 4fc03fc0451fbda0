"""One exchange with real servers that drip, bomb, or say nothing: it ends, and reads no more than it was told."""

import httpx
import pytest

from controlplane.outgoing import ANYWHERE, DeadlineExceeded, exchange, new_client
from tests.hostile_receiver import HostileReceiver

SOON_S = 0.3
NEVER_S = 60.0


@pytest.mark.parametrize("behaviour", ["never answers", "drips its headers", "drips its body"])
def test_the_deadline_ends_it_whatever_drips(behaviour: str) -> None:
    with HostileReceiver(behaviour) as receiver, new_client(NEVER_S, ANYWHERE) as http:
        with pytest.raises(DeadlineExceeded, match=r"no whole answer within 0\.3 s"):
            exchange(http, receiver.url, b"{}", {}, deadline_s=SOON_S, most_bytes=1 << 20)
        assert receiver.left.wait(NEVER_S)
        assert receiver.connections == 1


@pytest.mark.parametrize("behaviour", ["drips its body", "sends a bomb"])
def test_who_asks_for_no_body_is_not_held_by_one(behaviour: str) -> None:
    with HostileReceiver(behaviour) as receiver, new_client(NEVER_S, ANYWHERE) as http:
        answer = exchange(http, receiver.url, b"{}", {}, deadline_s=NEVER_S)
        assert (answer.status, answer.is_success, answer.body) == (200, True, b"")
        assert receiver.left.wait(NEVER_S)


def test_of_a_bomb_no_more_is_taken_than_was_asked_for() -> None:
    with HostileReceiver("sends a bomb") as receiver, new_client(NEVER_S, ANYWHERE) as http:
        answer = exchange(http, receiver.url, b"{}", {}, deadline_s=NEVER_S, most_bytes=4096)
        assert receiver.left.wait(NEVER_S)
    assert len(answer.body) == 4096 and answer.body.startswith(b"\x1f\x8b")
    # What the sockets' own buffers held on the way; decompressed it would be a thousand times as much.
    assert receiver.sent_bytes < 16 << 20


def test_a_redirect_is_an_answer_and_nothing_is_asked_to_be_compressed() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(302, headers={"Location": "http://elsewhere/"})

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        assert exchange(http, "http://there/", b"x", {"X-Own": "1"}, deadline_s=NEVER_S).status == 302
    assert len(seen) == 1
    assert (seen[0].headers["Accept-Encoding"], seen[0].headers["X-Own"]) == ("identity", "1")


def test_who_is_connected_too_late_sends_nothing() -> None:
    """As after a look-up of the name that took longer than the deadline: somebody else may have the letter by then."""
    with HostileReceiver("never answers") as receiver, new_client(NEVER_S, ANYWHERE) as http:
        with pytest.raises(httpx.TimeoutException):
            exchange(http, receiver.url, b"a letter", {}, deadline_s=1e-9)
        assert receiver.received == b""
