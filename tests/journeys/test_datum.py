"""The path of one datum, end to end in real processes: engine, agent, control plane, API.

The same requests are timed from outside; then the agent and the control plane are killed under traffic, and every
request made must be counted exactly once all the same.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.journeys.datum import MODEL, Datum
from tests.processes import wait_for
from tests.soak import soak

pytestmark = [pytest.mark.slow, pytest.mark.soak]

TOLERANCE = 0.025
HELD_UP = 0.8
"""A client sees later what the server has sent: loopback, HTTP and its own machine lie in between."""


@pytest.fixture(scope="module")
def datum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Datum]:
    made = Datum(tmp_path_factory.mktemp("datum"))
    try:
        made.start("service")
        made.start("engine")
        made.start("agent")
        yield made
    finally:
        made.end()


def neighbours(values: list[float], q: float, beyond: int = 0) -> tuple[float, float]:
    """The two measurements that the quantile lies between, or those so many ranks further out."""
    ordered = sorted(values)
    place = int(q * (len(ordered) - 1))
    return ordered[max(0, place - beyond)], ordered[min(place + 1 + beyond, len(ordered) - 1)]


@pytest.mark.clock
def test_the_api_says_what_the_clients_saw(datum: Datum) -> None:
    timings = datum.traffic(40, words=300, max_tokens=48)
    datum.assert_all_is_counted_once()
    with datum.client() as client:
        for metric in ("ttft", "e2e"):
            now = datetime.now(UTC) + timedelta(seconds=10)
            (series,) = client.quantiles(metric, (0.5, 0.95, 0.99), start=datum.began, end=now).series
            seen = [getattr(timing, metric) for timing in timings]
            assert HELD_UP <= series.mean / (sum(seen) / len(seen)) <= 1 + TOLERANCE
            for q in (0.5, 0.95, 0.99):
                # A client that its own machine held up has another rank than its request has with the server.
                low, high = neighbours(seen, q, beyond=1)
                said = series.quantiles[str(q)]
                print(f"{metric} p{q * 100:g}: clients {low * 1e3:.2f} to {high * 1e3:.2f} ms, API {said * 1e3:.2f} ms")
                assert low * HELD_UP <= said <= high * (1 + TOLERANCE)
            # On the server's own clock there is no HTTP in between, and nothing is allowed for it.
            records = client.requests(start=datum.began, end=now, pool="journey", limit=200).items
            exact = [record.parts[metric] for record in records]
            assert len(exact) == len(timings) and series.mean == pytest.approx(sum(exact) / len(exact), rel=1e-6)
            for q in (0.5, 0.95, 0.99):
                low, high = neighbours(exact, q)
                assert low * (1 - TOLERANCE) <= series.quantiles[str(q)] <= high * (1 + TOLERANCE)
        wait_for("the node is healthy", lambda: client.node("node-1").healthy)
        node = client.node("node-1")
        assert (node.model, node.pool, node.connected) == (MODEL.name, "journey", True)
        # It goes with a heartbeat.
        wait_for("its agent has told it", lambda: client.node("node-1").unaccounted_share is not None)
        share = client.node("node-1").unaccounted_share
        assert share is not None and share < 0.02


def test_the_engine_serves_on_without_its_agent_and_nothing_is_lost(datum: Datum) -> None:
    datum.traffic(6)
    datum.kill("agent")
    datum.traffic(10)
    assert datum.alive("engine")
    datum.start("agent")
    datum.traffic(4)
    datum.assert_all_is_counted_once()


def test_an_agent_killed_under_traffic_loses_and_doubles_nothing(datum: Datum) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(datum.traffic, 80)
        for pause_s in (0.8, 1.3, 3.0)[: soak(1, 3)]:
            time.sleep(pause_s)
            datum.kill("agent")
            datum.start("agent")
        running.result()
    datum.assert_all_is_counted_once()


def test_a_control_plane_killed_under_traffic_loses_and_doubles_nothing(datum: Datum) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(datum.traffic, 120)
        for pause_s in (1.0, 2.6, 2.7)[: soak(1, 3)]:
            time.sleep(pause_s)
            datum.kill("service")
            time.sleep(0.5)
            datum.start("service")
        running.result()
    datum.assert_all_is_counted_once()
    with datum.client() as client:
        wait_for("the node is back", lambda: client.node("node-1").connected and client.node("node-1").healthy)
