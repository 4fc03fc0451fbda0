import socket
import sys
from typing import Any

import pytest

from agents.client_measure.connection_waits import ConnectionMarks, handshake_s


class Stream:
    """What httpcore hands out for a connection."""

    def __init__(self, connected: socket.socket | None) -> None:
        self._connected = connected

    def get_extra_info(self, name: str) -> Any:
        return self._connected if name == "socket" else None


def marks(*events: tuple[str, float]) -> ConnectionMarks:
    made = ConnectionMarks(10.0)
    for name, at in events:
        made.note(name, at, {})
    return made


def test_a_new_connection_is_told_step_by_step() -> None:
    found = marks(
        ("connection.connect_tcp.started", 10.5),
        ("connection.connect_tcp.complete", 11.5),
        ("connection.start_tls.started", 11.5),
        ("connection.start_tls.complete", 13.5),
        ("http11.send_request_headers.started", 13.5),
        ("http11.send_request_headers.complete", 13.625),
        ("http11.send_request_body.started", 13.75),
        ("http11.send_request_body.complete", 14.0),
        ("http11.receive_response_headers.started", 14.0),
        ("http11.receive_response_headers.complete", 18.0),
    )
    assert (found.pool_s, found.connect_s, found.tls_s, found.send_s) == (0.5, 1.0, 2.0, 0.375)
    assert found.first_byte_s == 8.0 and found.reused is False


def test_an_open_connection_has_no_connect() -> None:
    found = marks(("http2.send_request_headers.started", 10.25), ("http2.send_request_headers.complete", 10.5))
    assert (found.pool_s, found.connect_s, found.tls_s, found.reused) == (0.25, None, None, True)


def test_tries_add_up_and_a_failed_one_counts() -> None:
    found = marks(
        ("connection.connect_tcp.started", 10.0),
        ("connection.connect_tcp.failed", 13.0),
        ("connection.retry.started", 13.0),
        ("connection.retry.complete", 14.0),
        ("connection.connect_tcp.started", 14.0),
        ("connection.connect_tcp.complete", 15.0),
    )
    assert found.connect_s == 4.0 and found.reused is False and found.first_byte_s is None


def test_nothing_seen_is_nothing_said() -> None:
    found = ConnectionMarks(0.0)
    assert found.reused is None and found.connect_s is None and found.lookup_s is None and found.pool_s == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_the_kernel_tells_the_handshake_of_a_real_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        found = handshake_s(Stream(client))
        assert found is not None and 0.0 < found < 1.0
    assert handshake_s(Stream(client)) is None, "closed meanwhile"


def test_a_stream_without_a_tcp_socket_tells_no_handshake() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert handshake_s(Stream(here)) is None
    assert handshake_s(Stream(None)) is None and handshake_s(None) is None
