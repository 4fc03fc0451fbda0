"""What an agent may hold of the service over OpAMP: one WebSocket a node, that says something in time."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry._opamp.proto import opamp_pb2
from websockets.exceptions import ConnectionClosed

from controlplane.auth.node_certificate import NodeCertificates
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.reports.opamp import REPLACED_CODE, REPLACED_PAUSE_S
from controlplane.fleet.opamp.hub import SocketLimits
from controlplane.serving.limits import Refused

REPORT_FULL_STATE = 1


def uuid7(unix_ms: int) -> bytes:
    """Of an agent process that began at this millisecond."""
    return unix_ms.to_bytes(6, "big") + b"\x70\x01\x80" + bytes(7)


@pytest.fixture
def counted(service: Any) -> Any:
    """How often a reason was counted since the test began: `counted(Refused.X)`."""
    door = service.server.service.door
    before = dict(door.refused)
    return lambda reason: door.refused[reason] - before.get(reason, 0)


@pytest.fixture
def hasty(service: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[SocketLimits]:
    limits = SocketLimits(first_message_s=0.3, idle_s=0.6, heartbeats=0.0)
    monkeypatch.setattr(service.parts.fleet, "limits", limits)
    yield limits


@pytest.fixture
def patient(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, no socket is closed for its silence."""
    monkeypatch.setattr(service.parts.fleet, "limits", SocketLimits(first_message_s=600.0, idle_s=600.0))


def closed_with(line: Any) -> tuple[int, str]:
    """Code and reason with which the service closes."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            line.receive()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def test_a_socket_that_says_nothing_is_closed(
    service: Any, socket_wire: Any, name: str, hasty: SocketLimits, counted: Any, eventually: Any
) -> None:
    with socket_wire(service.enrol(name, name)) as line:
        began = time.monotonic()
        assert closed_with(line) == (1008, "no message came in time after the connection was opened")
        assert time.monotonic() - began > hasty.first_message_s / 2
    assert counted(Refused.OPAMP_FIRST_MESSAGE) == 1


def test_a_socket_that_falls_silent_is_closed_and_its_node_gone(
    service: Any, socket_wire: Any, make_agent: Any, name: str, hasty: SocketLimits, counted: Any, eventually: Any
) -> None:
    with socket_wire(service.enrol(name, name)) as line:
        line.exchange(make_agent(name, name).full())
        assert closed_with(line) == (1008, "no message for three heartbeats")
        eventually(lambda: not service.admin.node(name).connected)
    assert counted(Refused.OPAMP_IDLE) == 1 and counted(Refused.OPAMP_FIRST_MESSAGE) == 0


def test_of_a_node_s_silent_sockets_the_newest_stays(
    service: Any, socket_wire: Any, make_agent: Any, name: str, patient: None, counted: Any, eventually: Any
) -> None:
    token, held = service.enrol(name, name), service.parts.fleet.connections
    lines = []
    try:
        for _ in range(20):
            lines.append(socket_wire(token).__enter__())
        for line in lines[:-1]:
            assert closed_with(line)[0] == REPLACED_CODE
        assert lines[-1].exchange(make_agent(name, name).full()).flags == 0
        eventually(lambda: service.parts.fleet.connections <= held + 1)
    finally:
        for line in lines:
            line.__exit__()
    assert counted(Refused.OPAMP_REPLACED) == 19


def test_the_newest_socket_of_a_node_takes_the_place_of_the_older(
    service: Any, socket_wire: Any, make_agent: Any, name: str, counted: Any
) -> None:
    """An agent that lost its network without the service noticing is back at once."""
    token, agent = service.enrol(name, name), make_agent(name, name)
    with socket_wire(token) as first:
        first.exchange(agent.full())
        with socket_wire(token) as second:
            second.exchange(agent.full())
            code, reason = closed_with(first)
            assert (code, "newer connection" in reason) == (REPLACED_CODE, True)
            assert second.exchange(agent.message()).flags == 0
            assert service.admin.node(name).connected
    assert counted(Refused.OPAMP_REPLACED) == 1


def test_an_open_but_silent_socket_takes_nobody_s_place(
    service: Any, socket_wire: Any, make_agent: Any, name: str
) -> None:
    token, agent = service.enrol(name, name), make_agent(name, name)
    with socket_wire(token) as first:
        first.exchange(agent.full())
        with socket_wire(token):
            assert first.exchange(agent.message()).flags == 0


def test_a_node_that_another_replica_holds_by_now_is_let_go(
    service: Any, socket_wire: Any, make_agent: Any, name: str, counted: Any
) -> None:
    from controlplane.fleet.tables import NodeRow

    with socket_wire(service.enrol(name, name)) as line:
        line.exchange(make_agent(name, name).full())
        with service.parts.database.session() as session:
            row = session.get(NodeRow, name)
            row.connection = "of-another-replica"
            session.add(row)
        assert closed_with(line)[0] == REPLACED_CODE
    assert counted(Refused.OPAMP_REPLACED) == 1


def test_of_two_agents_the_one_that_began_last_is_heard(
    service: Any, wire: Any, make_agent: Any, name: str, counted: Any
) -> None:
    """A cloned machine: both have the token. The other is told to wait, is never asked for its full state, and changes
    nothing."""
    token = service.enrol(name, name, "trial")
    older, newer = make_agent(name, name, "trial"), make_agent(name, name, "trial")
    older.uid, newer.uid = uuid7(1_000), uuid7(2_000)
    with wire(token) as line:
        assert line.exchange(older.full({"max_num_seqs": 4})).flags == 0
    with wire(token) as line:
        assert line.exchange(newer.full({"max_num_seqs": 8})).flags == 0
        for said in (older.full({"max_num_seqs": 4}), older.message(skip=3)):
            with wire(token) as other:
                reply = other.exchange(said)
            assert reply.error_response.type == opamp_pb2.ServerErrorResponseType_Unavailable
            assert reply.error_response.retry_info.retry_after_nanoseconds == REPLACED_PAUSE_S * 1e9
            assert "another agent, started later" in reply.error_response.error_message
            assert reply.flags != REPORT_FULL_STATE
        view = service.admin.node(name)
        assert view.effective is not None and view.effective.knobs == {"max_num_seqs": 8} and view.connected
        assert line.exchange(newer.message()).flags == 0, "the one that is heard has lost nothing by it"
    assert counted(Refused.OPAMP_RIVAL) == 2


def test_the_older_agent_is_heard_once_the_newer_is_gone(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    token = service.enrol(name, name)
    older, newer = make_agent(name, name), make_agent(name, name)
    older.uid, newer.uid = uuid7(1_000), uuid7(2_000)
    with wire(token) as line:
        line.exchange(newer.full())
        last = newer.message()
        last.agent_disconnect.SetInParent()
        line.exchange(last)
    with wire(token) as line:
        reply = line.exchange(older.full())
    assert not reply.HasField("error_response")
    assert service.admin.node(name).pool == name


def test_a_certificate_is_checked_when_the_socket_opens_not_at_each_message(
    service: Any, socket_wire: Any, make_agent: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str | None] = []
    monkeypatch.setattr(NodeCertificates, "check", lambda _, principal, __: checked.append(principal.node))
    token, agent = service.enrol(name, name, "trial"), make_agent(name, name, "trial")
    with socket_wire(token) as line:
        line.exchange(agent.full({"max_num_seqs": 4}))
        for _ in range(5):
            line.exchange(agent.message())
        own = [node for node in checked if node == name]
        service.admin.set_trial_config(name, TrialConfig(knobs={"max_num_seqs": 5}))
        assert line.receive().HasField("remote_config")
    assert own == [name]
