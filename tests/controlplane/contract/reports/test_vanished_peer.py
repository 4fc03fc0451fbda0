"""Which options a connection gets that notices when its peer's machine vanishes."""

import socket
import sys

import pytest

from controlplane.contract.reports import vanished_peer


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name the options otherwise")
def test_the_system_watches_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as made, listening.accept()[0] as accepted:
            vanished_peer.detect(made)
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            found = [made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
            assert found == [13, 9, 3, 40_000]
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


def test_a_system_that_has_none_of_them_is_asked_for_what_each_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name, raising=False)
    with socket.socket() as made:
        vanished_peer.detect(made)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
