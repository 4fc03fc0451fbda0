"""Load, knee, what explains an overload, and when an objective breaks."""

import numpy as np
import pytest

from controlplane.alerts.queueing.knee import Usual, usual
from controlplane.alerts.queueing.overload import CAPACITY, NODES, REQUESTS, TOKENS, pressure
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.slo_forecast import forecast, nearest, slope
from controlplane.contract.bodies.slo import Limit

LIMIT = Limit(metric="ttft", q=0.95, limit_s=2.0)


def load(
    served: list[float], waiting: list[float], each: float = 100.0, nodes: float = 2.0, running: float = 4.0
) -> PoolLoad:
    done = np.array(served, dtype=float)
    there = np.full(done.size, 1.0)
    return PoolLoad(0.0, 5.0, done, each * done, np.array(waiting, dtype=float), running * there, nodes * there)


def test_what_arrives_is_what_is_served_and_what_waits_more() -> None:
    assert load([10, 10, 5], [0, 4, 9]).arrived.tolist() == [10, 14, 10]


def test_a_request_waits_for_those_before_it_at_the_rate_of_the_last_minute() -> None:
    made = load([10] * 24, [6.0] * 23 + [float("nan")])
    assert made.wait_s[20] == pytest.approx(3.0) and np.isnan(made.wait_s[-1])
    stuck = load([10] * 100 + [0] * 24, [0] * 100 + [50] * 24)
    assert 100.0 < stuck.wait_s[-1] < 1000.0  # Nobody waits for ever.


def test_the_knee_is_the_highest_load_at_which_nobody_waited() -> None:
    calm, busy, over = [20] * 60, [40] * 60, [50] * 60
    made = load(calm + busy + over, [0] * 120 + [60] * 60)
    found = usual(made, slice(0, 180))
    assert found is not None
    assert found.knee_requests == pytest.approx(8.0, rel=0.02) and found.knee_tokens == pytest.approx(800.0, rel=0.02)
    assert (found.nodes, found.at_knee) == (2.0, True)
    bound = usual(load(calm + busy, [0] * 120), slice(0, 120))
    assert bound is not None and not bound.at_knee
    assert usual(load([0] * 90, [0] * 90), slice(0, 90)) is None


KNOWN = Usual(knee_tokens=800.0, knee_requests=8.0, nodes=2.0, requests=4.0, tokens_each=100.0, at_knee=True)


@pytest.mark.parametrize(
    ("served", "each", "nodes", "leading"),
    [(40.0, 100.0, 2.0, REQUESTS), (20.0, 200.0, 2.0, TOKENS), (20.0, 100.0, 1.0, NODES), (10.0, 100.0, 2.0, CAPACITY)],
)
def test_what_explains_an_overload_is_the_factor_that_grew(
    served: float, each: float, nodes: float, leading: str
) -> None:
    arrived = 80.0 if leading == REQUESTS else 20.0
    waiting = np.cumsum([arrived - served] * 12).clip(0.0)
    found = pressure(load([served] * 12, waiting.tolist(), each, nodes), KNOWN, 0)
    assert found.leading == leading and sum(found.shares.values()) == pytest.approx(1.0)
    assert found.unit == "tokens" and found.served == pytest.approx(served * each / 5)


def test_a_pool_that_does_not_tell_tokens_is_told_in_requests() -> None:
    known = Usual(0.0, 8.0, 2.0, 4.0, 0.0, True)
    found = pressure(load([20.0] * 12, list(range(0, 240, 20)), each=0.0), known, 0)
    assert (found.unit, found.served, found.knee) == ("requests", 4.0, 8.0)


def test_an_objective_breaks_when_usual_time_and_wait_reach_its_limit() -> None:
    assert slope(np.array([0.0, 0.5, 1.0, 1.5]), 5.0) == pytest.approx(0.1)
    assert slope(np.array([1.0]), 5.0) == 0.0
    found = forecast(LIMIT, 0.5, 0.6, wait_s=0.5, grows=0.1)
    assert found.in_s == pytest.approx(10.0) and not found.broken
    assert found.is_near(10.5) and not found.is_near(9.0)
    assert "TTFT p95 passes its limit of 2.00 s in 10.0 s" in found.words
    assert forecast(LIMIT, 0.5, None, 2.0, 0.0).in_s == 0.0
    assert forecast(LIMIT, 0.5, 0.6, 0.5, -0.1).in_s is None
    broken = forecast(LIMIT, 0.5, 2.5, 0.0, 0.0)
    assert broken.broken and broken.is_near(0.0) and broken.words == "TTFT p95 is past its limit of 2.00 s"
    assert nearest([found, broken]) is broken and nearest([]) is None
