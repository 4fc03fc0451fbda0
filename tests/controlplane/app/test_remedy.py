"""The remedy: one study at a time, none within the cooldown, and the alert goes out whatever happens."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlmodel import Session

from controlplane import ledger
from controlplane.app.remedy import DECLINED, STARTED, check_remedy, start_remedy
from controlplane.contract.alerts import Alert, AlertRule, AlertState, DriftCondition, Remedy, Severity
from controlplane.contract.errors import BadRequest
from controlplane.contract.studies import KnobRange, StudyCreate
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from controlplane.fleet import registry
from controlplane.studies import store as studies

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    database = Database(f"sqlite:///{tmp_path / 'remedy.db'}")
    upgrade(database)
    with database.session() as opened:
        registry.place(opened, "a", pool="p", role="serving", backend="embedded", now=NOW)
        yield opened
    database.close()


def rule(remedy: Remedy | None) -> AlertRule:
    return AlertRule(id=4, name="slow", condition=DriftCondition(), remedy=remedy, created_at=NOW)


def alert(number: int) -> Alert:
    return Alert(
        id=number,
        fingerprint="f",
        rule_id=4,
        rule="slow",
        state=AlertState.FIRING,
        severity=Severity.PAGE,
        labels={"pool": "p"},
        summary="ttft p99 doubled",
        started_at=NOW,
    )


REMEDY = Remedy(study=StudyCreate(pool="p"), cooldown_s=600)


def kinds(session: Session) -> list[str]:
    found = ledger.entries(session, before_id=None, limit=10, subject="alert-rule/4")
    return [entry.kind for entry in found]


def test_a_rule_without_a_remedy_starts_nothing(session: Session) -> None:
    assert start_remedy(session, alert(1), rule(None), NOW) is None
    assert kinds(session) == []


def test_a_study_is_started_for_the_alert(session: Session) -> None:
    number = start_remedy(session, alert(1), rule(REMEDY), NOW)
    study = studies.active(session, "p")
    assert study is not None
    assert (study.id, study.alert_id, study.created_by) == (number, 1, "trimtab")
    assert study.spec.reason == "alert 1: ttft p99 doubled"
    assert kinds(session) == [STARTED]


def test_one_study_at_a_time(session: Session) -> None:
    studies.create(session, StudyCreate(pool="p"), actor="me", now=NOW)
    assert start_remedy(session, alert(1), rule(REMEDY), NOW) is None
    assert kinds(session) == [DECLINED]


def test_the_cooldown_holds(session: Session) -> None:
    first = start_remedy(session, alert(1), rule(REMEDY), NOW)
    assert first is not None
    studies.cancel(session, first, actor="me", now=NOW)
    assert start_remedy(session, alert(2), rule(REMEDY), NOW + timedelta(seconds=599)) is None
    assert start_remedy(session, alert(3), rule(REMEDY), NOW + timedelta(seconds=600)) is not None
    assert kinds(session) == [STARTED, DECLINED, STARTED]


def test_a_study_that_is_not_valid_does_not_stop_the_alert(session: Session) -> None:
    wrong = Remedy(study=StudyCreate(pool="p", space={"max_num_seq": KnobRange(minimum=1, maximum=2)}))
    assert start_remedy(session, alert(1), rule(wrong), NOW) is None
    assert kinds(session) == [DECLINED]


@pytest.mark.parametrize(
    ("study", "field"),
    [
        (StudyCreate(pool="p", objective="speed"), "remedy.study.objective"),
        (
            StudyCreate(pool="p", space={"max_num_seq": KnobRange(minimum=1, maximum=2)}),
            "remedy.study.space.max_num_seq",
        ),
    ],
)
def test_a_remedy_that_could_never_start_is_refused_when_the_rule_is_made(study: StudyCreate, field: str) -> None:
    check_remedy(Remedy(study=StudyCreate(pool="nodes come later")))
    with pytest.raises(BadRequest) as caught:
        check_remedy(Remedy(study=study))
    assert caught.value.detail["field"] == field and caught.value.message.startswith(field)
