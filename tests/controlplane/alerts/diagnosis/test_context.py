"""What surrounds a slowdown, as read from telemetry: how well the acceptance of drafts is known, and who sent."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from controlplane.alerts.diagnosis.context import Drafts, difference_error, surroundings
from controlplane.contract.metrics import ACCEPTED_TOKENS, DRAFT_TOKENS
from controlplane.telemetry import Span
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
WINDOWS = 240


def drafts(accepted: list[int]) -> Drafts:
    """100 proposed in each window."""
    return Drafts(np.full(len(accepted), 100), np.array(accepted))


def test_drafts_that_fare_alike_tell_less_than_as_many_that_do_not() -> None:
    chance = np.random.default_rng(3)
    single = drafts(chance.binomial(100, 0.5, WINDOWS).tolist())
    alike = drafts((10 * chance.binomial(10, 0.5, WINDOWS)).tolist())
    few = drafts([20, 20])
    exact = (0.35 * 0.65 * (1 / (100 * WINDOWS) + 1 / 200)) ** 0.5
    assert difference_error(single, few) == pytest.approx(exact, rel=0.25)
    assert difference_error(alike, few) > 2.5 * exact


def test_too_few_drafts_have_no_share_and_no_error() -> None:
    nothing, some = Drafts(np.array([99]), np.array([50])), drafts([50] * 20)
    assert nothing.share is None and some.share == 0.5
    assert difference_error(nothing, some) == difference_error(some, nothing) == 0.0


def test_acceptance_and_tenants_are_read_of_both_sides() -> None:
    telemetry = FakeReader()
    for place in range(24):
        time, now = START + timedelta(seconds=5 * place), place >= 12
        for tenant, count in (("web", 9), ("batch", 11 if now else 1)):
            telemetry.add("e2e", time, [0.1] * count, pool="main", node="a", tenant=tenant)
        telemetry.add(DRAFT_TOKENS.short, time, 50.0, pool="main", node="a")
        telemetry.add(ACCEPTED_TOKENS.short, time, 10.0 if now else 40.0, pool="main", node="a")
    onset = START + timedelta(seconds=60)
    before, during = Span(START, onset), Span(onset, START + timedelta(seconds=120))
    found = surroundings(telemetry, {"pool": "main"}, "e2e", before, during)
    assert (found.acceptance.before, found.acceptance.during) == (0.8, 0.2) and 0.0 < found.acceptance_error < 0.1
    assert (found.tenant_before["batch"], found.tenant_during["batch"]) == (0.1, 0.55)
