"""What holds what back: while its source fires, where the labels agree, and never each other."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.rules.inhibit_rows import create_inhibit_rule, delete_inhibit_rule
from controlplane.alerts.rules.inhibition import held_by, held_now, holding_now
from controlplane.alerts.rules.silence import silenced
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.contract.bodies.alerts import AlertRuleCreate, InhibitRule, InhibitRuleCreate, SilenceCreate, Silenced
from controlplane.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PAGE = {"severity": "page", "pool": "chat"}


def rule(**more: Any) -> InhibitRule:
    told: dict[str, Any] = {
        "id": 1,
        "name": "pages before tickets",
        "source": Silenced(matchers={"severity": "page"}),
        "target": Silenced(matchers={"severity": "ticket"}),
        "equal": ["pool"],
        "created_at": NOW,
    }
    return InhibitRule(**{**told, **more})


def test_a_page_holds_back_its_pools_tickets() -> None:
    held = held_by([rule()], [PAGE])
    assert silenced(held, {"severity": "ticket", "pool": "chat", "node": "n"}, NOW)
    assert not silenced(held, {"severity": "ticket", "pool": "batch"}, NOW)
    assert not silenced(held, PAGE, NOW)
    assert held_by([rule()], []) == [] == held_by([], [PAGE])


def test_a_source_without_a_label_that_must_agree_holds_nothing() -> None:
    assert held_by([rule()], [{"severity": "page"}]) == []
    assert len(held_by([rule(equal=[])], [{"severity": "page"}])) == 1


def test_patterns_count_on_both_sides() -> None:
    wide = rule(source=Silenced(patterns={"pool": "chat.*"}), target=Silenced(patterns={"node": "gpu-.*"}), equal=[])
    held = held_by([wide], [PAGE])
    assert silenced(held, {"node": "gpu-7"}, NOW) and not silenced(held, {"node": "cpu-7"}, NOW)


SIDES = st.builds(Silenced, matchers=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), min_size=1))
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))


@given(SIDES, SIDES, LABELS)
def test_no_alert_holds_itself_back(source: Silenced, target: Silenced, labels: dict[str, str]) -> None:
    assert not silenced(held_by([rule(source=source, target=target, equal=[])], [labels]), labels, NOW)


def test_what_is_held_back_itself_holds_nothing_back(database: Database) -> None:
    wanted = InhibitRuleCreate(name="r", source=Silenced(matchers={"severity": "page"}), target=rule().target)
    with database.session() as session:
        create_inhibit_rule(session, wanted, actor="ada", now=NOW)
        for state, held in (("firing", False), ("firing", True), ("pending", False), ("resolved", False)):
            session.add(
                AlertRow(
                    fingerprint=f"{state}{held}",
                    rule_id=1,
                    rule="r",
                    kind="k",
                    pool=f"{state}-{held}",
                    state=state,
                    severity="page",
                    labels={"pool": f"{state}-{held}"},
                    summary="s",
                    started_at=NOW,
                    breach_since=NOW,
                    silenced=held,
                )
            )
    with database.read_session() as session:
        assert [one.matchers["pool"] for one in held_now(session)] == ["firing-False"]
    with database.session() as session:
        delete_inhibit_rule(session, 1, actor="ada", now=NOW)
    with database.read_session() as session:
        assert held_now(session) == []


def test_a_ticket_waits_until_its_page_is_over(database: Database, plant: Any) -> None:
    """Driven by the evaluator: both fire, only the page is sent; the page's rule is deleted, and the ticket is sent."""
    evaluator = AlertEvaluator(database, plant.telemetry, lag_s=0.0)
    with database.session() as session:
        session.add(DestinationRow(name="hook", shown="https://x", created_at=plant.now))
        create_inhibit_rule(
            session, InhibitRuleCreate(**rule().model_dump(exclude={"id", "created_at"})), actor="ada", now=plant.now
        )

    def add(name: str, severity: str, q: float) -> int:
        condition = {"kind": "absolute", "limits": [{"metric": "ttft", "q": q, "limit_s": 0.001}], "for_s": 0}
        wanted = AlertRuleCreate.model_validate({"name": name, "severity": severity, "condition": condition})
        with database.session() as session:
            return store.create_rule(session, wanted, plant.now).id

    def run() -> dict[str, bool]:
        for _ in range(6):
            plant.serve(5.0)
            evaluator.tick(plant.now)
        with database.read_session() as session:
            told = {row.alert_id for row in session.exec(select(DeliveryRow)) if row.status == "firing"}
            return {row.rule: row.id in told for row in session.exec(select(AlertRow))}

    page = add("page", "page", 0.99)
    assert run() == {"page": True}
    add("ticket", "ticket", 0.5)
    assert run() == {"page": True, "ticket": False}
    with database.session() as session:
        store.delete_rule(session, page, plant.now)
    assert run()["ticket"]


@given(st.lists(st.fixed_dictionaries({"severity": st.just("page"), "pool": st.sampled_from("abc")}), max_size=40))
def test_many_that_hold_back_the_same_are_told_once(fires: list[dict[str, str]]) -> None:
    """Each alert that is shown is held against each of them."""
    held = held_by([rule()], fires)
    assert sorted(one.matchers["pool"] for one in held) == sorted({labels["pool"] for labels in fires})
    assert len(held_by([rule(equal=[])], fires)) == min(1, len(fires))


def test_a_silence_that_is_over_is_not_looked_at_again(database: Database) -> None:
    wanted = {"matchers": {"pool": "chat"}, "comment": "a move"}
    with database.session() as session:
        for hours in (1, 3):
            ends_at = NOW + timedelta(hours=hours)
            store.create_silence(session, SilenceCreate(**wanted, ends_at=ends_at), actor="me", now=NOW)
        assert [len(holding_now(session, NOW + timedelta(hours=hours))) for hours in (0, 1, 2, 3)] == [2, 1, 1, 0]
