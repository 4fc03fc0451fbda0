"""What the server tells agents of themselves: how often to speak, when to come again, and which identity is free."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

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
        full.setattr(service.parts.fleet, "turnstile", Turnstile(most=0))
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
    service: Any, socket_wire: Any, make_agent: Any, name: str, crowded: pytest.MonkeyPatch
) -> None:
    token, agent = service.enrol(name, name), make_agent(name, name)
    with pytest.raises(InvalidStatus) as denied, socket_wire(token):
        pass
    assert denied.value.response.status_code == 503
    assert SOONEST_S <= int(denied.value.response.headers["Retry-After"]) <= LATEST_S
    assert json.loads(denied.value.response.body or b"")["error"]["code"] == "unavailable"
    crowded.undo()
    with socket_wire(token) as line:
        line.exchange(agent.full())
        crowded.setattr(service.parts.fleet, "turnstile", Turnstile(most=0))
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
        if isinstance(place, Place):
            place.leave()
        return isinstance(place, Place)

    with socket_wire(token) as line:
        line.exchange(make_agent(name, name).full())
        eventually(is_free)
    with socket_wire(token):
        eventually(is_free)  # It has said nothing.
        with socket_wire(service.enrol(f"{name}-2", name)) as line:
            line.exchange(make_agent(f"{name}-2", name).full())
    eventually(is_free)


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
