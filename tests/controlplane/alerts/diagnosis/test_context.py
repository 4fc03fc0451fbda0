"""What surrounds a slowdown, as read from telemetry: acceptance, answers, who sent."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane import ledger
from controlplane.alerts.diagnosis.causes import Context
from controlplane.alerts.diagnosis.context import surroundings, with_records
from controlplane.contract.channels.inbound import EventCreate
from controlplane.contract.metrics import ACCEPTED_TOKENS, DELIVERED_TOKENS, DRAFT_TOKENS, OUTPUT_TOKENS
from controlplane.db import Database
from controlplane.inbound.store import post_event
from controlplane.telemetry import Span
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_acceptance_answers_and_tenants_are_read_of_both_sides() -> None:
    telemetry = FakeReader()
    for place in range(24):
        time, now = START + timedelta(seconds=5 * place), place >= 12
        for tenant, count in (("web", 9), ("batch", 11 if now else 1)):
            telemetry.add("e2e", time, [0.1] * count, pool="main", node="a", tenant=tenant)
        telemetry.add(OUTPUT_TOKENS.short, time, 1200.0 if now else 200.0, pool="main", node="a")
        telemetry.add(DRAFT_TOKENS.short, time, 50.0, pool="main", node="a")
        telemetry.add(ACCEPTED_TOKENS.short, time, 10.0 if now else 40.0, pool="main", node="a")
    onset = START + timedelta(seconds=60)
    before, during = Span(START, onset), Span(onset, START + timedelta(seconds=120))
    found = surroundings(telemetry, {"pool": "main"}, "e2e", before, during)
    accepted, given = found.drafts.accepted, found.drafts.given
    assert (accepted.before, accepted.during) == (0.8, 0.2) and 0.0 < accepted.error < 0.1
    assert given.before == 0.2 and given.during == pytest.approx(10 / 1200) and given.error > 0.0
    assert (found.tenant_before["batch"], found.tenant_during["batch"]) == (0.1, 0.55)
    assert (found.answer_tokens.before, found.answer_tokens.during) == (
        20.0,
        60.0,
    ) and 0.0 < found.answer_tokens.error < 10.0


def test_what_drafts_give_is_read_by_node_and_kind_of_prompt() -> None:
    """Node b's deliveries hold one token each where they held two, and come twice as far apart."""
    telemetry = FakeReader()
    for place in range(144):
        time, now = START + timedelta(seconds=5 * place), place >= 120
        for node in "ab":
            lost = now and node == "b"
            for bucket in ("<=128", "<=512"):
                labels = {"pool": "main", "node": node, "prompt_bucket": bucket}
                telemetry.add("itl", time, [0.04 if lost else 0.02] * (100 if lost else 50), **labels)
                telemetry.add(DELIVERED_TOKENS.short, time, 100.0, **labels)
            telemetry.add(DRAFT_TOKENS.short, time, 200.0, pool="main", node=node)
            telemetry.add(ACCEPTED_TOKENS.short, time, 100.0, pool="main", node=node)
    onset = START + timedelta(seconds=600)
    spans = Span(START, onset), Span(onset, START + timedelta(seconds=720))
    drafts = surroundings(telemetry, {"pool": "main"}, "tpot", *spans).drafts
    assert [(one.label, one.value) for one in drafts.groups] == [
        *(("node", "a"), ("node", "b"), ("prompt_bucket", "<=128"), ("prompt_bucket", "<=512"))
    ]
    assert drafts.apart is not None and drafts.apart.value == "b"
    assert (drafts.apart.own.before, drafts.apart.own.during) == (0.5, 0.0)
    assert drafts.gap_growth == pytest.approx(2.0, rel=0.05)
    telemetry.points[DRAFT_TOKENS.short] = []
    assert not surroundings(telemetry, {"pool": "main"}, "tpot", *spans).drafts.groups


def test_who_sends_is_counted_by_first_tokens_where_they_are_told() -> None:
    """Of the tenant whose answers take long none has ended."""
    telemetry = FakeReader()
    for place in range(24):
        time, now = START + timedelta(seconds=5 * place), place >= 12
        telemetry.add("e2e", time, [0.1] * 9, pool="main", node="a", tenant="web", revision="1")
        for tenant, count in (("web", 9), ("batch", 9 if now else 1)):
            telemetry.add("ttft", time, [0.1] * count, pool="main", node="a", tenant=tenant)
    onset = START + timedelta(seconds=60)
    found = surroundings(
        telemetry, {"pool": "main"}, "ttft", Span(START, onset), Span(onset, START + timedelta(seconds=120))
    )
    assert (found.tenant_before["batch"], found.tenant_during["batch"]) == (0.1, 0.5)
    assert [seen.number for seen in found.revisions] == [1] and found.rate.during == 9 / 5


def test_what_others_did_is_told_at_its_time_to_the_pools_that_it_is_about(database: Database) -> None:
    until = START + timedelta(seconds=60)
    posted = (("gateway 4.2.1", {"pool": "main"}), ("models", {"pool": "other"}), ("network", {}))
    with database.session() as session:
        for place, (subject, labels) in enumerate(posted):
            wanted = EventCreate(
                kind="deploy",
                subject=subject,
                labels=labels,
                time=START - timedelta(seconds=60 + place),
                link="https://ci/7" if "pool" in labels else None,
            )
            post_event(session, wanted, actor="ci", now=START)
        for pool in ("main", "other"):
            ledger.append(session, START, "agent a", "node.enrolled", f"node/{pool}", "enrolled", pool=pool)
    with database.read_session() as session:
        around = with_records(session, Context(pool="main"), START, until)
    assert [(one["message"], one["link"]) for one in around.marks] == [
        ("deploy: network", None),
        ("deploy: gateway 4.2.1", "https://ci/7"),
    ]
    assert [(one["message"], one["time"]) for one in around.ledger] == [
        ("enrolled", START.isoformat()),
        ("deploy: network", (START - timedelta(seconds=62)).isoformat()),
        ("deploy: gateway 4.2.1", (START - timedelta(seconds=60)).isoformat()),
    ]
