"""Where the service may call: no spelling of an inner address passes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadSettings
from controlplane.outgoing import ANYWHERE, AddressPolicy, RefusedAddress, exchange, new_client
from tests.hostile_receiver import HostileReceiver

NOWHERE_INSIDE = AddressPolicy()


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
        ),
        *("224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
    ],
)
def test_inner_addresses_are_refused_with_the_mend(address: str) -> None:
    assert "--outgoing-allow" in (NOWHERE_INSIDE.refusal(address) or "")
    assert ANYWHERE.refusal(address) is None


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_public_addresses_pass(address: str) -> None:
    assert NOWHERE_INSIDE.refusal(address) is None


def test_a_network_that_is_allowed_passes_and_its_neighbour_does_not() -> None:
    policy = AddressPolicy.of(["10.1.0.0/16", " fd00:1::/32"])
    assert policy.refusal("10.1.2.3") is None and policy.refusal("fd00:1::5") is None
    assert policy.refusal("::ffff:10.1.2.3") is None
    assert policy.refusal("10.2.0.1") and policy.refusal("fd00:2::1") and policy.refusal("169.254.169.254")
    with pytest.raises(BadSettings, match=r"outgoing_allow: .*10.0.0.0/8"):
        AddressPolicy.of(["10.1.2.3/8"])


@given(st.ip_addresses(network="10.0.0.0/8") | st.ip_addresses(network="127.0.0.0/8"))
def test_every_spelling_of_an_address_is_the_address(address: Any) -> None:
    assert NOWHERE_INSIDE.refusal(str(address)) and NOWHERE_INSIDE.refusal(f"::ffff:{address}")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0", "[::1]", "[::ffff:7f00:1]"]
)
def test_no_spelling_of_this_machine_is_called(host: str) -> None:
    with HostileReceiver("drips its headers") as receiver, new_client(5, NOWHERE_INSIDE) as http:
        port = httpx.URL(receiver.url).port
        with pytest.raises((RefusedAddress, httpx.ConnectError, httpx.InvalidURL)) as caught:
            exchange(http, f"http://{host}:{port}/", b"{}", {}, deadline_s=5)
        assert not receiver.connections, caught.value


@contextmanager
def name_server(monkeypatch: pytest.MonkeyPatch, *answers: str) -> Iterator[list[str]]:
    """`rebound.example` has these addresses, one at each look."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "rebound.example":
            return real(host, port, *args, **options)
        asked.append(host)
        address = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked


def test_a_name_is_looked_up_once_and_the_checked_address_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        name_server(monkeypatch, "127.0.0.1", "127.0.0.2") as asked,
    ):
        heard: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with new_client(5, AddressPolicy.of(["127.0.0.1/32"])) as http:
            url = f"http://rebound.example:{listener.getsockname()[1]}/hook"
            assert exchange(http, url, b"{}", {}, deadline_s=5).status == 204
            assert asked == ["rebound.example"] and b"Host: rebound.example:" in heard[0]
            thread.join()
            with pytest.raises(RefusedAddress, match=r"127\.0\.0\.2"):
                exchange(http, url, b"{}", {}, deadline_s=5)


def test_no_proxy_of_the_environment_gets_to_see_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with HostileReceiver("never answers") as receiver, new_client(0.3, ANYWHERE) as http:
        with pytest.raises(httpx.TimeoutException):
            exchange(http, receiver.url, b"{}", {}, deadline_s=0.3)
        assert receiver.connections
