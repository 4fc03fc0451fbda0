"""Rollouts read back from the ledger that the rollouts themselves have written."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlmodel import Session

from controlplane.alerts.diagnosis.rollout_record import RolloutRecord, rollouts_of
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Verdict
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.rollouts import store
from controlplane.rollouts.decision import Decision
from tests.made_tables import migrate

NOW = datetime(2026, 5, 1, 8, 44, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.fixture(params=["sqlite", "postgresql"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    url = (
        f"sqlite:///{tmp_path / 'a.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_schema_url")
    )
    database = Database(url)
    migrate(database)
    with database.session() as opened:
        for pool in ("p", "q"):
            row = fleet.place(opened, f"{pool}-a", pool=pool, role="serving", backend="embedded", now=NOW)
            row.connected = row.healthy = True
        for budget in (512, 4, 64):
            wanted = RevisionCreate(knobs={"max_num_batched_tokens": budget})
            fleet.create_revision(opened, wanted, "me", NOW)
        for pool in ("p", "q"):
            fleet.set_pool_revision(opened, pool, 1, NOW)
        yield opened
    database.close()


def told(session: Session, pool: str, start: datetime, until: datetime) -> list[RolloutRecord]:
    """What the ledger tells once what was done is committed, as it is when an alert asks."""
    session.commit()
    return rollouts_of(session, pool, start, until)


def end(session: Session, rollout_id: int, phase: RolloutPhase, moment: datetime, verdict: Verdict | None) -> None:
    row = store.row_of(session, rollout_id)
    row.phase = RolloutPhase.PROMOTING.value if phase is RolloutPhase.PROMOTED else RolloutPhase.ROLLING_BACK.value
    store.carry_out(session, row, Decision(phase, "ended", verdict=verdict), [], actor="me", now=moment)


@pytest.mark.slow
def test_a_canary_rolled_back_an_emergency_and_a_proposal(session: Session) -> None:
    canary = store.create(session, RolloutCreate(pool="p", revision=2), actor="me", now=at(20))
    end(session, canary.id, RolloutPhase.ROLLED_BACK, at(120), Verdict.WORSE)
    wanted = RolloutCreate(pool="p", revision=2, emergency=True, reason="now")
    emergency = store.create(session, wanted, actor="me", now=at(200))
    before = told(session, "p", at(0), at(201))
    assert before[1] == RolloutRecord(
        number=emergency.id,
        pool="p",
        revision=2,
        previous_revision=1,
        started_at=at(200),
        emergency=True,
        verdict="unjudged",
    )
    end(session, emergency.id, RolloutPhase.PROMOTED, at(203), Verdict.UNJUDGED)
    fleet.set_pool_revision(session, "p", 2, at(203))
    wanted = RolloutCreate(pool="p", revision=1, takes_back=2, start=False)
    store.create(session, wanted, actor="me", now=at(210))
    store.create(session, RolloutCreate(pool="q", revision=2), actor="me", now=at(220))
    first, second = told(session, "p", at(0), at(300))
    assert (first.number, first.verdict, first.ended_at, first.promoted_at) == (canary.id, "worse", at(120), None)
    assert (second.number, second.ended_at, second.promoted_at) == (emergency.id, at(203), at(203))
    assert (second.path, second.words, first.words) == (
        f"/rollouts/{emergency.id}",
        f"emergency rollout {emergency.id}",
        f"rollout {canary.id}",
    )


def test_one_that_began_long_before_is_known_whole_once_it_acts_again(session: Session) -> None:
    waited = store.create(session, RolloutCreate(pool="p", revision=2, start=False), actor="me", now=at(-5000))
    assert told(session, "p", at(0), at(100)) == []
    store.start(session, waited.id, actor="me", now=at(50))
    (found,) = told(session, "p", at(0), at(100))
    assert (found.number, found.started_at, found.revision, found.takes_back) == (waited.id, at(50), 2, None)
    assert told(session, "q", at(0), at(100)) == []
