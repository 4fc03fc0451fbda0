"""Reports that go on from the one before them: read and written as columns, as they would be with the whole row."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import select

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp.session import Answer, Asked, Came, answer, answers
from controlplane.fleet.opamp.wire import AgentReport, Description, Health
from controlplane.fleet.tables import NodeRow
from tests.controlplane.fleet.opamp.test_answers import KNOBS, NOW, TERMS, asked_of, enrolled
from tests.made_tables import migrate

NEW = {"max_num_seqs": 7}
RUNS_OLD = EffectiveConfig(revision=1, knobs=KNOBS)
RUNS_NEW = EffectiveConfig(revision=2, knobs=NEW)
APPLIED, APPLYING, FAILED = ConfigStatus.APPLIED, ConfigStatus.APPLYING, ConfigStatus.FAILED


def says(**parts: Any) -> dict[str, Any]:
    return {"sequence_num": 1, **parts}


def of(status: ConfigStatus, mark: str = "", error: str = "") -> machine.Acknowledged:
    return machine.Acknowledged(f"2:{SHA}{mark}", status, error)


SHA = "a" * 64  # Put in place of revision 2's own.

GOING_ON: dict[str, dict[str, Any]] = {
    "nothing": says(),
    "health": says(health=Health(True, "", 0.5)),
    "illness": says(health=Health(False, "out of memory", None)),
    "applying": says(config=of(APPLYING)),
    "applied, and runs it": says(config=of(APPLIED), effective=RUNS_NEW),
    "applied, and runs another": says(config=of(APPLIED), effective=RUNS_OLD),
    "runs it unasked": says(effective=RUNS_NEW),
    "another acknowledged": says(config=machine.Acknowledged("1:x", APPLIED, "")),
    "one lost before": says(sequence_num=3, health=Health(True, "", 0.1)),
    "something wrong": says(problems=("health.decomposition.status: wants a decimal number, got 'x'",)),
    "never given one": says(config=machine.Acknowledged("", ConfigStatus.UNSET, "")),
}
WITH_THE_ROW: dict[str, dict[str, Any]] = {
    "failed": says(config=of(FAILED, error="no memory"), effective=RUNS_OLD),
    "who it is": says(description=Description("?", version="2"), health=Health(True, "", None)),
    "goodbye": says(disconnecting=True),
    "another process": says(instance_uid=f"{77:032x}", health=Health(True, "", 0.2)),
    "another connection": says(connection="elsewhere"),
    "over HTTP": says(connection=None),
    "wants a name": says(wants_instance_uid=True),
}
EVERY = {**GOING_ON, **WITH_THE_ROW}


def asked(principals: Sequence[Principal], sha: str, wanted: Sequence[dict[str, Any]]) -> list[Asked]:
    """A report of each node, a minute later."""
    made = []
    for place, (principal, parts) in enumerate(zip(principals, wanted, strict=True)):
        given = dict(parts)
        uid, held = given.pop("instance_uid", f"{place:032x}"), given.pop("connection", f"c{place}")
        if "description" in given:
            given["description"] = Description(principal.node or "", version="2")
        if (config := given.get("config")) is not None:
            given["config"] = machine.Acknowledged(config.hash.replace(SHA, sha), config.status, config.error)
        came = Came(held, "10.0.0.1", 0)
        made.append(Asked(principal, AgentReport(uid, **given), NOW + timedelta(minutes=1), came))
    return made


def fleet_of(database: Database, count: int) -> tuple[list[Principal], str]:
    """Nodes that have reported once, and are to run revision 2; and its hash."""
    principals = enrolled(database, count)
    answers(database, asked_of(principals), TERMS)
    with database.session() as session:
        made = fleet.create_revision(session, RevisionCreate(knobs=NEW), "x", NOW)
        fleet.set_pool_revision(session, "chat", made.number, NOW)
    return principals, made.hash


def all_that_is_known(database: Database) -> list[Any]:
    with database.session() as session:
        rows = [row.model_dump() for row in session.exec(select(NodeRow).order_by(NodeRow.node))]
        told = [
            (one.kind, one.subject, one.message, one.evidence)
            for one in ledger.entries(session, before_id=None, limit=500)
        ]
    return [rows, [one for one in told if one[0] not in ("node.enrolled", "token.created")]]


@pytest.mark.slow
def test_it_comes_to_what_the_whole_row_would(database: Database, tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path}/other.db")
    migrate(other)
    found = []
    for one, together in ((database, True), (other, False)):
        principals, sha = fleet_of(one, len(EVERY))
        told: list[Any] = []
        for later in range(2):  # The second finds what the first has left.
            given = asked(
                principals, sha, [{**parts, "sequence_num": parts["sequence_num"] + later} for parts in EVERY.values()]
            )
            got = answers(one, given, TERMS) if together else [answer(one, each, TERMS) for each in given]
            for name, each in zip(EVERY, got, strict=True):
                assert isinstance(each, Answer), (name, each)
                reply = each.reply
                told.append(
                    (name, each.node, each.desired, each.rival_of, reply.offer, reply.report_full_state, reply.error)
                )
        found.append((told, *all_that_is_known(one)))
    other.close()
    (told_together, rows_together, ledger_together), (told_alone, rows_alone, ledger_alone) = found
    assert told_together == told_alone
    assert rows_together == rows_alone
    assert ledger_together == ledger_alone and len(ledger_together) > 5
    assert {bool(offer) for *_, offer, _, _ in told_together} == {True, False}


@pytest.mark.parametrize("name", EVERY)
def test_what_only_goes_on_is_not_read_whole(database: Database, name: str) -> None:
    principals, sha = fleet_of(database, 2)
    given = asked(principals, sha, [EVERY[name], GOING_ON["health"]])
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    answers(database, given, TERMS)
    whole = [one for one in statements if "node.health_detail" in one and one.startswith("SELECT")]
    assert bool(whole) == (name in WITH_THE_ROW), whole


def test_two_of_one_node_are_taken_in_one_after_the_other(database: Database) -> None:
    principals, sha = fleet_of(database, 2)
    first, second = (
        asked(principals[:1], sha, [parts])[0]
        for parts in (says(config=of(APPLYING)), says(sequence_num=2, config=of(APPLIED), effective=RUNS_NEW))
    )
    beside = asked(principals, sha, [says(), GOING_ON["health"]])[1]
    got = answers(database, [first, beside, replace(second, came=Came("c0", "10.0.0.1", 1))], TERMS)
    assert all(isinstance(one, Answer) and not one.reply.report_full_state for one in got)
    with database.session() as session:
        row = session.get_one(NodeRow, principals[0].node)
        assert (row.config_status, row.sequence_num, row.drift_since) == (APPLIED.value, 2, None)


def test_whose_token_is_due_is_given_another(database: Database) -> None:
    principals, sha = fleet_of(database, 2)
    given = asked(principals, sha, [says(takes_connection_settings=True)] * 2)
    late = [Asked(one.principal, one.report, NOW + timedelta(days=31), one.came) for one in given]
    for one in answers(database, late, TERMS):
        assert isinstance(one, Answer) and one.reply.token is not None
