"""What the server tells agents of themselves: how often to speak, when to come again, and which identity is free."""

import json
import logging
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from opentelemetry._opamp.proto import opamp_pb2
from websockets.exceptions import InvalidStatus

from controlplane.fleet.opamp import opamp_socket, throttling
from controlplane.fleet.opamp.turnstile import LATEST_S, SOONEST_S, Place, Turnstile
from controlplane.fleet.opamp.wire import BEATS, TAKES_CONNECTION_SETTINGS
from controlplane.serving.limits import Refused


def taking_heartbeats(message: opamp_pb2.AgentToServer) -> opamp_pb2.AgentToServer:
    message.capabilities |= TAKES_CONNECTION_SETTINGS | BEATS
    return message


def interval_s(reply: opamp_pb2.ServerToAgent) -> int | None:
    settings = reply.connection_settings
    assert not settings.opamp.headers.headers, "no new token comes with it"
    return settings.opamp.heartbeat_interval_seconds if reply.HasField("connection_settings") else None


def test_an_agent_is_told_once_how_often_to_speak_and_again_when_that_changes(
    service: Any, socket_wire: Any, make_agent: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        assert interval_s(line.exchange(taking_heartbeats(agent.full()))) is None, "its own will do"
        with monkeypatch.context() as crowded:
            crowded.setattr(throttling, "BEATS_A_SECOND", 0.001)
            assert interval_s(line.exchange(taking_heartbeats(agent.message()))) == throttling.LONGEST_S
            assert interval_s(line.exchange(taking_heartbeats(agent.message()))) is None
        assert interval_s(line.exchange(taking_heartbeats(agent.message()))) == throttling.OWN_S


def test_one_that_takes_no_such_settings_is_not_told(
    service: Any, socket_wire: Any, make_agent: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "BEATS_A_SECOND", 0.001)
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        assert not line.exchange(agent.full()).HasField("connection_settings")


@pytest.fixture
def crowded(service: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nobody is let in, for as long as it is not undone; and one is counted."""
    door = service.server.service.door
    before = door.refused[Refused.OPAMP_BUSY]
    with monkeypatch.context() as full:
        full.setattr(service.parts.fleet, "turnstile", Turnstile(most=0, waiting=0))
        yield full
    assert door.refused[Refused.OPAMP_BUSY] == before + 1


def test_who_comes_over_http_while_too_many_do_is_told_when_to_come_again(
    service: Any, http_wire: Any, make_agent: Any, name: str, crowded: pytest.MonkeyPatch
) -> None:
    agent = make_agent(name, name)
    with http_wire(service.enrol(name, name)) as line:
        refusal = line.exchange(agent.full()).error_response
        assert refusal.type == opamp_pb2.ServerErrorResponseType_Unavailable
        assert SOONEST_S <= refusal.retry_info.retry_after_nanoseconds / 1e9 <= LATEST_S
        assert service.admin.node(name).last_seen is None
        assert line.exchange(agent.message()).flags, "what costs little is taken"
        crowded.undo()
        assert not line.exchange(agent.full()).HasField("error_response")


def test_who_connects_while_too_many_do_is_told_at_the_door(
    service: Any,
    socket_wire: Any,
    make_agent: Any,
    name: str,
    crowded: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    token, agent = service.enrol(name, name), make_agent(name, name)
    with pytest.raises(InvalidStatus) as denied, socket_wire(token):
        pass
    assert denied.value.response.status_code == 503
    assert SOONEST_S <= int(denied.value.response.headers["Retry-After"]) <= LATEST_S
    assert json.loads(denied.value.response.body or b"")["error"]["code"] == "unavailable"
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR], "to be refused is no fault of ours"
    crowded.undo()
    with socket_wire(token) as line:
        line.exchange(agent.full())
        crowded.setattr(service.parts.fleet, "turnstile", Turnstile(most=0, waiting=0))
        assert not line.exchange(agent.full()).HasField("error_response"), "it is in"


def test_a_place_is_left_by_whoever_was_answered_left_or_says_nothing(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turnstile = Turnstile(most=1)
    monkeypatch.setattr(service.parts.fleet, "turnstile", turnstile)
    monkeypatch.setattr(opamp_socket, "PLACE_S", 0.2)
    token = service.enrol(name, name)

    def is_free() -> bool:
        place = turnstile.come()
        assert isinstance(place, Place)
        place.leave()
        return place.reached.is_set()

    with socket_wire(token) as line:
        line.exchange(make_agent(name, name).full())
        eventually(is_free)
    with socket_wire(token):
        eventually(is_free)  # It has said nothing.
        with socket_wire(service.enrol(f"{name}-2", name)) as line:
            line.exchange(make_agent(f"{name}-2", name).full())
    eventually(is_free)


def test_who_waits_at_the_door_is_let_in_when_another_is_done(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turnstile = Turnstile(most=1)
    monkeypatch.setattr(service.parts.fleet, "turnstile", turnstile)
    monkeypatch.setattr(opamp_socket, "PLACE_S", 60.0)
    in_time: list[str] = []

    def wait(number: int) -> None:
        with socket_wire(service.enrol(f"{name}-{number}", name)) as line:
            line.exchange(make_agent(f"{name}-{number}", name).full())
            in_time.append(f"{name}-{number}")

    with socket_wire(service.enrol(name, name)) as line, ThreadPoolExecutor(2) as others:
        waiting = [others.submit(wait, number) for number in range(2)]
        eventually(lambda: turnstile.waiting == 2)
        assert not in_time
        line.exchange(make_agent(name, name).full())
        for one in waiting:
            one.result(timeout=60)
    assert sorted(in_time) == [f"{name}-{number}" for number in range(2)]


def test_who_is_gone_before_it_is_let_in_keeps_nobody_out(
    service: Any,
    socket_wire: Any,
    make_agent: Any,
    name: str,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    turnstile = Turnstile(most=1)
    monkeypatch.setattr(service.parts.fleet, "turnstile", turnstile)
    monkeypatch.setattr(opamp_socket, "PLACE_S", 60.0)
    token = service.enrol(f"{name}-gone", name)
    with socket_wire(service.enrol(name, name)) as line:
        address = urlsplit(service.url)
        with socket.create_connection((address.hostname, address.port)) as gone:
            gone.sendall(
                f"GET /v1/opamp HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                f"Authorization: Bearer {token}\r\n\r\n".encode()
            )
            eventually(lambda: turnstile.waiting == 1)
        service.admin.node(name)  # Asked after it has gone: so the service has seen that.
        line.exchange(make_agent(name, name).full())
        with socket_wire(service.enrol(f"{name}-2", name)) as other:
            other.exchange(make_agent(f"{name}-2", name).full())
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_of_two_nodes_with_one_instance_uid_the_later_is_given_another(
    service: Any, wire: Any, make_agent: Any, name: str
) -> None:
    first, second = make_agent(name, name), make_agent(f"{name}-copy", name)
    second.uid = first.uid
    with wire(service.enrol(name, name)) as one, wire(service.enrol(f"{name}-copy", name)) as other:
        assert not one.exchange(first.full()).HasField("agent_identification")
        given = other.exchange(second.full()).agent_identification.new_instance_uid
        assert uuid.UUID(bytes=given).version == 7 and given != first.uid
        second.uid = given
        assert not other.exchange(second.full()).HasField("agent_identification")
        assert not one.exchange(first.full()).HasField("agent_identification"), "it keeps its own"


def test_who_asks_for_an_instance_uid_is_given_one(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        asking = agent.full()
        asking.flags = opamp_pb2.AgentToServerFlags_RequestInstanceUid
        assert uuid.UUID(bytes=line.exchange(asking).agent_identification.new_instance_uid).version == 7
