"""Reports taken in together: each as it would be by itself, in a few statements, and none pays for another."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp import session
from controlplane.fleet.opamp.offers import offers
from controlplane.fleet.opamp.session import Answer, Asked, Came, Terms, answer, answers
from controlplane.fleet.opamp.wire import AgentReport, Description, Health
from controlplane.fleet.tables import NodeRow
from tests.made_tables import migrate

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TERMS = Terms(Pace(100), 30.0, 600.0)
KNOBS = {"max_num_seqs": 16}


def enrolled(database: Database, count: int) -> list[Principal]:
    made = []
    with database.session() as session:
        for number in range(count):
            node = f"n{number}"
            token = fleet.enrol(session, EnrolmentRequest(node=node, pool="chat", backend="e"), actor="x", now=NOW)
            session.flush()
            view = tokens.find_all(session, {token})[token]
            made.append(Principal(view.name, Scope.AGENT, view.id, node=node, pool="chat"))
    return made


def full(node: str, uid: str) -> AgentReport:
    return AgentReport(uid, 0, Description(node), Health(True, "", 0.01), EffectiveConfig(revision=0, knobs=KNOBS))


def asked_of(principals: list[Principal], **said: Any) -> list[Asked]:
    return [
        Asked(one, said.get(one.node or "") or full(one.node or "", f"{place:032x}"), NOW, Came(f"c{place}"))
        for place, one in enumerate(principals)
    ]


def state_of(database: Database) -> list[Any]:
    """All that is known of nodes and pools, and the ledger but for who was first."""
    with database.session() as opened:
        rows = [node.model_dump(exclude={"created_at"}) for node in fleet.nodes(opened)]
        return [rows, sorted(entry.kind for entry in ledger.entries(opened, before_id=None, limit=500))]


def test_together_they_come_to_what_they_come_to_one_by_one(database: Database, tmp_path: Any) -> None:
    other = Database(f"sqlite:///{tmp_path}/other.db")

    migrate(other)
    found = []
    for one, together in ((database, True), (other, False)):
        principals = enrolled(one, 5)
        rounds = [asked_of(principals)]
        given = [f"1:{'0' * 64}"]
        rounds.append(
            [
                Asked(who, AgentReport(f"{place:032x}", 1, config=status), NOW, Came(f"c{place}"))
                for place, (who, status) in enumerate(
                    zip(
                        principals,
                        [
                            machine.Acknowledged(given[0], ConfigStatus.APPLIED, ""),
                            machine.Acknowledged(given[0], ConfigStatus.FAILED, "no memory"),
                            machine.Acknowledged(given[0], ConfigStatus.APPLYING, ""),
                            None,
                            machine.Acknowledged("", ConfigStatus.UNSET, ""),
                        ],
                        strict=True,
                    )
                )
            ]
        )
        moved, copied = f"{99:032x}", f"{3:032x}"
        said = {"n0": moved, "n1": moved, "n2": copied, "n3": f"{98:032x}", "n4": copied}
        rounds.append(asked_of(principals, **{node: full(node, uid) for node, uid in said.items()}))
        told: list[Any] = []
        for asked in rounds:
            got = answers(one, asked, TERMS) if together else [answer(one, each, TERMS) for each in asked]
            for each in got:
                assert isinstance(each, Answer)
                renamed = each.reply.new_instance_uid is not None
                told.append((each.node, each.desired, each.reply.offer is not None, each.reply.error, renamed))
        found.append((told, state_of(one)))
    other.close()
    assert found[0] == found[1]
    assert [renamed for *_, renamed in told[-5:]] == [False, True, True, False, True], "two of them are copies"


def test_many_cost_few_statements(database: Database) -> None:
    principals = enrolled(database, 40)
    answers(database, asked_of(principals), TERMS)
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    beats = [
        Asked(one, AgentReport(f"{place:032x}", 1, health=Health(True, "spool 1", 0.02)), NOW, Came(f"c{place}"))
        for place, one in enumerate(principals)
    ]
    assert all(isinstance(one, Answer) for one in answers(database, beats, TERMS))
    assert len(statements) <= 10, statements
    statements.clear()
    assert all(isinstance(one, Answer) for one in answers(database, asked_of(principals), TERMS))
    assert len(statements) <= 10, statements
    with database.session() as opened:
        number = fleet.create_revision(opened, RevisionCreate(knobs={"max_num_seqs": 7}), "x", NOW).number
        fleet.set_pool_revision(opened, "chat", number, NOW)
    statements.clear()
    pushed = offers(database, [*(one.node or "" for one in principals), "nobody"], TERMS)
    assert [one is not None and one.reply.offer is not None for one in pushed] == [True] * 40 + [False]
    assert len(statements) <= 6, statements


def test_one_that_cannot_be_taken_in_costs_the_others_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    principals = enrolled(database, 4)
    take_in = session._take_in

    def failing(opened: Any, row: NodeRow, *given: Any) -> None:
        if row.node == "n2":
            raise RuntimeError("n2")
        take_in(opened, row, *given)

    monkeypatch.setattr(session, "_take_in", failing)
    found = answers(database, asked_of(principals), TERMS)
    assert [type(one) for one in found] == [Answer, Answer, RuntimeError, Answer]
    with database.session() as opened:
        assert [node.connected for node in fleet.nodes(opened)] == [True, True, False, True]


def test_a_database_that_is_away_is_waited_for_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    principals, tried = enrolled(database, 4), []

    def away(*_: Any) -> Any:
        tried.append(1)
        raise OperationalError("", {}, Exception("locked"))

    monkeypatch.setattr(session, "ReadAhead", away)
    found = answers(database, asked_of(principals), TERMS)
    assert [type(one) for one in found] == [OperationalError] * 4 and len(tried) == 1


def test_a_value_that_is_another_only_as_json_is_kept(database: Database) -> None:
    (principal,) = enrolled(database, 1)
    answers(database, asked_of([principal]), TERMS)
    number, yes = {"start": 0, "values": [0, 1]}, {"start": False, "values": [False, True]}
    for place, (value, knob) in enumerate(((1, number), (True, yes)), 1):
        declared = {"flag": {"change_class": "live", **knob}}
        said = {"revision": 0, "knobs": {**KNOBS, "flag": value}, "declared": declared}
        report = AgentReport(f"{0:032x}", place, effective=EffectiveConfig.model_validate(said))
        answers(database, [Asked(principal, report, NOW, Came("c0"))], TERMS)
    with database.session() as opened:
        told = opened.get_one(NodeRow, "n0").effective
    assert told is not None and told["knobs"]["flag"] is True and told["declared"]["flag"]["start"] is False
