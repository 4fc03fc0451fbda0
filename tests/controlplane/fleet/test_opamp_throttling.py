"""What the server tells agents of themselves: how often to speak, when to come again, and which identity is free."""

import uuid
from typing import Any

import pytest
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.fleet.opamp import throttling
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


def test_who_comes_while_too_many_wait_is_told_when_to_come_again(
    service: Any, wire: Any, make_agent: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = service.server.service.door
    before = door.refused[Refused.OPAMP_BUSY]
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        with monkeypatch.context() as crowded:
            crowded.setattr(throttling, "MOST_WAITING", 0)
            refusal = line.exchange(agent.full()).error_response
            assert refusal.type == opamp_pb2.ServerErrorResponseType_Unavailable
            later_s = refusal.retry_info.retry_after_nanoseconds / 1e9
            assert throttling.SOONEST_S <= later_s <= throttling.LATEST_S
            assert service.admin.node(name).last_seen is None
        assert not line.exchange(agent.full()).HasField("error_response")
        with monkeypatch.context() as crowded:
            crowded.setattr(throttling, "MOST_WAITING", 0)
            assert not line.exchange(agent.message()).HasField("error_response"), "it is in"
    assert door.refused[Refused.OPAMP_BUSY] == before + 1


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
