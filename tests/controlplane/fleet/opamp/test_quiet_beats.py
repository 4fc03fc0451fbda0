"""Heartbeats that say nothing new: which they are, what is written of them, and that nothing else changes by them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp import quiet_beats
from controlplane.fleet.opamp.quiet_beats import FRESH_S, WHOLE_S, Heard, QuietBeats, heard_of
from controlplane.fleet.opamp.wire import AgentReport, Description, Health, Reply
from controlplane.fleet.tables import NodeRow
from tests.controlplane.fleet.test_opamp_conformance import APPLIED, REPORT_FULL_STATE, production

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
HEARD = Heard("gpu-1", "aa", 7, True, True, NOW)
BEAT = AgentReport("aa", 8, health=Health(True, "spool 3", 0.01))


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_beat_that_follows_is_quiet() -> None:
    assert HEARD.follows(BEAT, NOW, NOW) and HEARD.follows(replace(BEAT, health=None), NOW, after(FRESH_S))


@pytest.mark.parametrize(
    "more",
    [
        {"sequence_num": 9},
        {"sequence_num": 7},
        {"instance_uid": "bb"},
        {"health": Health(False, "", None)},
        {"description": Description("gpu-1")},
        {"effective": EffectiveConfig(revision=1, knobs={})},
        {"config": machine.Acknowledged("1:f00", ConfigStatus.APPLIED, "")},
        {"disconnecting": True},
        {"wants_instance_uid": True},
        {"problems": ("x",)},
    ],
)
def test_what_says_more_is_for_the_database(more: dict[str, Any]) -> None:
    assert not HEARD.follows(replace(BEAT, **more), NOW, NOW)


def test_a_share_that_becomes_known_is_for_the_database() -> None:
    unknown = replace(HEARD, knows_share=False)
    assert not unknown.follows(BEAT, NOW, NOW)
    assert unknown.follows(replace(BEAT, health=Health(True, "spool 3", None)), NOW, NOW)
    known = heard_of("gpu-1", BEAT, Reply("aa"), unknown, NOW)
    assert known is not None and known.follows(replace(BEAT, sequence_num=9), NOW, NOW)


def test_what_cannot_be_known_is_asked_of_the_database() -> None:
    assert not HEARD.follows(BEAT, None, NOW), "nobody has looked"
    assert not HEARD.follows(BEAT, NOW, after(FRESH_S + 1)), "or not lately"
    assert not HEARD.follows(BEAT, after(WHOLE_S), after(WHOLE_S)), "and now and then it is asked all the same"
    assert not HEARD.follows(BEAT, after(2), after(2), whole_s=2), "sooner where tokens last less"


@pytest.mark.parametrize(
    "left", [{"token": "t"}, {"error": "x"}, {"report_full_state": True}, {"new_instance_uid": b"x"}]
)
def test_an_agent_that_is_told_anything_is_heard_in_full_next(left: dict[str, Any]) -> None:
    assert heard_of("gpu-1", BEAT, Reply("aa"), None, NOW) == replace(HEARD, sequence_num=8)
    assert heard_of("gpu-1", replace(BEAT, health=None), Reply("aa"), HEARD, NOW) == replace(HEARD, sequence_num=8)
    assert heard_of("gpu-1", BEAT, Reply("aa", **left), HEARD, NOW) is None


def row_of(database: Database) -> NodeRow:
    with database.session() as session:
        row = session.get(NodeRow, "gpu-1")
        assert row is not None
        return row


@pytest.fixture
def connected(database: Database) -> Database:
    with database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="gpu-1", pool="chat", backend="e"), actor="x", now=NOW)
        row = session.get(NodeRow, "gpu-1")
        assert row is not None
        row.connection, row.last_seen, row.sequence_num, row.unaccounted_share = "c1", NOW, 7, 0.5
        session.add(row)
    return database


def test_the_newest_beat_is_written_once(connected: Database) -> None:
    beats = QuietBeats()
    heard = beats.take("c1", HEARD, BEAT, after(10))
    assert heard.sequence_num == 8
    beats.take("c1", heard, AgentReport("aa", 9), after(20))
    beats.write(connected)
    row = row_of(connected)
    assert (row.last_seen, row.sequence_num, row.health_detail, row.unaccounted_share) == (
        after(20),
        9,
        "spool 3",
        0.01,
    )
    with connected.session() as session:
        row.last_seen = NOW
        session.add(row)
    beats.write(connected)
    assert row_of(connected).last_seen == NOW, "it waits no longer"


@pytest.mark.parametrize("moved", [{"connection": "c2"}, {"connection": None}, {"last_seen": after(60)}])
def test_a_node_that_is_elsewhere_or_has_said_more_is_left(connected: Database, moved: dict[str, Any]) -> None:
    with connected.session() as session:
        row = session.get(NodeRow, "gpu-1")
        assert row is not None
        row.sqlmodel_update(moved)
        session.add(row)
    beats = QuietBeats()
    beats.take("c1", HEARD, BEAT, after(10))
    beats.write(connected)
    assert (row_of(connected).sequence_num, row_of(connected).unaccounted_share) == (7, 0.5)


def test_what_cannot_be_written_waits(connected: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = QuietBeats()
    beats.take("c1", HEARD, BEAT, after(10))
    with monkeypatch.context() as broken, pytest.raises(RuntimeError):
        broken.setattr(quiet_beats, "_columns", lambda *_: (_ for _ in ()).throw(RuntimeError))
        beats.write(connected)
    beats.write(connected)
    assert row_of(connected).last_seen == after(10)


@pytest.mark.slow
def test_over_a_websocket_beats_leave_the_database_alone(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    do = service.parts.fleet.reports.do
    monkeypatch.setattr(service.parts.fleet.reports, "do", lambda one: asked.append(one) or do(one))
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        told = line.exchange(agent.full({"max_num_seqs": 16})).remote_config
        asked.clear()
        assert line.exchange(agent.message()).remote_config == told and len(asked) == 1, "as long as it is not applied"
        taken = agent.status(told.config_hash, APPLIED)
        agent.add_effective(taken, json.loads(told.config.config_map["engine.json"].body)["knobs"], 1)
        line.exchange(taken)

        def beats_quietly() -> bool:
            before = len(asked)
            assert line.exchange(agent.message()).flags == 0
            return len(asked) == before

        eventually(beats_quietly)  # The hub has to have looked.
        first = service.admin.node(name).last_seen
        assert all(beats_quietly() for _ in range(20))
        eventually(lambda: service.admin.node(name).last_seen > first)

        number = production(service, name, max_num_seqs=7)
        pushed = line.receive()  # The hub looks at it by itself.
        assert pushed.remote_config.config_hash.startswith(f"{number}:".encode())
        assert line.exchange(agent.message()).remote_config == pushed.remote_config, "until it is acknowledged"
        done = agent.status(pushed.remote_config.config_hash, APPLIED)
        body = json.loads(pushed.remote_config.config.config_map["engine.json"].body)
        agent.add_effective(done, body["knobs"], number)
        assert not line.exchange(done).HasField("remote_config")
        assert service.admin.node(name).config_status is ConfigStatus.APPLIED
        eventually(beats_quietly)
        assert line.exchange(agent.message(skip=1)).flags == REPORT_FULL_STATE
        assert line.exchange(agent.full()).flags == 0


def test_beats_that_are_not_yet_written_are_not_asked_for_again_when_an_offer_comes(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.parts.fleet.beats, "write", lambda _: None)
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        line.exchange(agent.full())

        def beats_quietly() -> bool:
            first = service.admin.node(name).last_seen
            line.exchange(agent.message())
            return bool(service.admin.node(name).last_seen == first)

        eventually(beats_quietly)
        number = production(service, name, max_num_seqs=7)
        assert line.receive().remote_config.config_hash.startswith(f"{number}:".encode())
        assert line.exchange(agent.message()).flags == 0


@pytest.mark.slow
def test_a_node_that_was_taken_for_silent_says_that_it_is_there(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any
) -> None:
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        line.exchange(agent.full())
        with service.parts.database.session() as session:
            row = session.get(NodeRow, name)
            row.connected, row.connection = False, None
            session.add(row)

        def is_back() -> bool:
            line.exchange(agent.message())
            return bool(service.admin.node(name).connected)

        eventually(is_back)
