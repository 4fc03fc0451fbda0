"""A port is taken before anything else, and what stands against it is said."""

import socket

import pytest

from controlplane.contract.errors import BadSettings, Conflict
from controlplane.serving.listening_sockets import taken
from tests.processes import free_port


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def test_a_port_is_ours_and_nobody_is_answered_yet() -> None:
    found = taken("127.0.0.1", 0)
    try:
        address = found[0].getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        found[0].listen()
        socket.create_connection(address, timeout=5).close()
    finally:
        close(found)


def test_a_port_in_use_names_itself_and_the_mend() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Conflict, match=f"port: {port} of 127.0.0.1 is in use: .* another --port"):
            taken("127.0.0.1", port)


def test_every_address_of_a_name_gets_the_same_port() -> None:
    found = taken("localhost", 0)
    assert found and len({one.getsockname()[1] for one in found}) == 1
    close(found)
    port = free_port()
    found = taken("localhost", port)
    assert {one.getsockname()[1] for one in found} == {port}
    close(found)


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(BadSettings, match=f"host: {host} "):
        taken(host, 0)
