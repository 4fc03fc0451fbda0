"""Lost requests: pages soon, keeps quiet about what is usual, and survives its own state."""

import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.requests_failed import LostShare, judge_requests_failed
from controlplane.alerts.windows.pool_endings import Ended
from controlplane.contract.bodies.alerts import RequestsFailedCondition

CONDITION = RequestsFailedCondition()
END = datetime(2030, 1, 1, tzinfo=UTC)


class Pool:
    def __init__(self, seed: int, known: LostShare | None = None) -> None:
        self.random, self.at_s = np.random.default_rng(seed), 1_000_000.0
        self.known = known or LostShare(condition=CONDITION)

    def serve(self, seconds: float, share: float, rate: float = 3.0, reason: str = "shed") -> list[Finding]:
        windows = []
        for _ in range(round(seconds / 5)):
            count = int(self.random.poisson(5 * rate))
            lost = int(self.random.binomial(count, share))
            windows.append(Ended(self.at_s, count, {reason: lost} if lost else {}))
            self.at_s += 5.0
        return judge_requests_failed(self.known, windows, "main", 1, END)


def seconds_to_breach(findings: list[Finding]) -> float:
    return next((5.0 * (n + 1) for n, one in enumerate(findings) if one.reading is Reading.BREACH), math.inf)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("reason", ["shed", "timeout", "refused", "disconnect", "error"])
def test_the_slowest_third_lost_pages_within_a_minute(seed: int, reason: str) -> None:
    pool = Pool(seed)
    pool.serve(600, 0.0)
    assert seconds_to_breach(pool.serve(120, 0.3, reason=reason)) <= 60


@pytest.mark.slow
def test_a_week_of_what_is_usual_stays_silent() -> None:
    for seed, share in ((1, 0.0), (2, 0.002), (3, 0.008)):
        pool = Pool(seed)
        assert seconds_to_breach(pool.serve(7 * 86400 / 3, share)) == math.inf


def test_a_pool_that_always_loses_some_is_judged_by_its_own_past() -> None:
    pool = Pool(5, LostShare(condition=CONDITION, count=20_000, lost=800))
    assert seconds_to_breach(pool.serve(3600, 0.04)) == math.inf
    assert seconds_to_breach(pool.serve(120, 0.3)) <= 60


def test_who_always_lost_a_third_is_told_so() -> None:
    pool = Pool(6, LostShare(condition=CONDITION, count=20_000, lost=6_600))
    assert seconds_to_breach(pool.serve(600, 0.33)) <= 120


def test_an_alert_says_what_was_lost_ends_and_teaches_nothing() -> None:
    pool = Pool(7)
    pool.serve(900, 0.001)
    before = pool.known.null
    told = pool.serve(300, 0.3)[-1]
    assert told.reading is Reading.BREACH and "shed" in told.summary and told.since is not None
    assert told.evidence["lost_share"] == pytest.approx(0.3, abs=0.05)
    assert abs(told.since.timestamp() - (1_000_000.0 + 900)) <= 30
    assert pool.serve(300, 0.001)[-1].reading is Reading.CLEAR
    pool.serve(900, 0.001)
    assert pool.known.null == pytest.approx(before, rel=0.3)


def test_state_goes_on_where_it_was() -> None:
    pool = Pool(8)
    pool.serve(600, 0.0)
    pool.serve(20, 0.2)
    stored = json.loads(json.dumps(pool.known.dump()))
    again = Pool(8, LostShare.load(CONDITION, stored))
    assert again.known.stream == pool.known.stream and again.known.recent == pool.known.recent
    again.random, again.at_s = np.random.default_rng(9), pool.at_s
    pool.random = np.random.default_rng(9)
    assert again.serve(60, 0.3) == pool.serve(60, 0.3)


def test_without_requests_nothing_is_said() -> None:
    assert [one.reading for one in judge_requests_failed(LostShare(condition=CONDITION), [], "main", 1, END)] == [
        Reading.HOLD
    ]
