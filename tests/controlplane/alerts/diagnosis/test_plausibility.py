"""What people confirmed moves how plausible a kind is; each incident counts once, by its last word."""

from datetime import UTC, datetime

import pytest
from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.diagnosis.confirmed_causes import CAUSE_CONFIRMED, confirmed_causes
from controlplane.alerts.diagnosis.plausibility import PRIOR, STRENGTH, Confirmed, learned
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_nothing_confirmed_leaves_the_prior() -> None:
    assert learned([]) == pytest.approx(dict(PRIOR))


def test_every_kind_but_unknown_has_a_prior() -> None:
    assert set(PRIOR) == {kind.value for kind in CauseKind} - {CauseKind.UNKNOWN.value}


def test_the_right_one_gains_those_before_it_lose_those_after_it_stay() -> None:
    found = learned([Confirmed("load", ["host", "load", "one_node"])])
    assert found["load"] == pytest.approx((STRENGTH * 0.9 + 1) / (STRENGTH + 1))
    assert found["host"] == pytest.approx(STRENGTH * 0.92 / (STRENGTH + 1))
    assert found["one_node"] == pytest.approx(PRIOR["one_node"])


@pytest.mark.parametrize("cause", ["unknown", "a kind of a later version"])
def test_none_of_those_named_makes_all_of_them_less_plausible(cause: str) -> None:
    found = learned([Confirmed(cause, ["host", "load"])])
    assert found["host"] < PRIOR["host"] and found["load"] < PRIOR["load"]


def test_the_ledger_tells_the_last_word_of_each_incident(database: Database) -> None:
    def say(session: Session, incident: int, cause: str) -> None:
        told = {"cause": cause, "named": ["host", "load"], "comment": ""}
        ledger.append(session, NOW, "ada", CAUSE_CONFIRMED, f"incident/{incident}", "said", **told)

    with database.session() as session:
        say(session, 1, "host")
        say(session, 2, "load")
        say(session, 1, "load")
    with database.read_session() as session:
        found = confirmed_causes(session)
    assert sorted(one.cause for one in found) == ["load", "load"]
