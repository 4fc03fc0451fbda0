"""A pool's figures from telemetry: trial nodes count nowhere, what nobody told is None, peaks are of whole steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.pool_reading import (
    PoolFiguresReader,
    findable,
    reading_width_of,
    stalls_of,
    step_of,
    whole_steps,
)
from controlplane.contract import metrics
from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.whatif import MOST_REQUESTS
from controlplane.telemetry import Span
from controlplane.telemetry.question import Free
from tests.controlplane.telemetry.fake_reader import FakeReader, sketch_of

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SPAN = Span(START, START + timedelta(minutes=10))


@dataclass
class Told(FakeReader):
    """With a log of requests, of which it is remembered from when on it was asked for."""

    log: list[WorkloadRequest] = field(default_factory=list)
    from_: list[datetime] = field(default_factory=list)

    def workload(self, pool: str, start: datetime, end: datetime) -> Workload:
        self.from_.append(start)
        return Workload(pool=pool, start=start, end=end, nodes=1, requests=self.log)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def read(told: Told, span: Span = SPAN) -> PoolFigures:
    return PoolFiguresReader(told, "chat", Free()).read(span, None, [])


def serving(told: Told, second: float, requests: int, node: str = "gpu-1", **labels: str) -> None:
    labels = {"pool": "chat", "node": node, **labels}
    told.add(metrics.E2E.short, at(second), [2.0] * requests, **labels)
    told.add(metrics.RUNNING.short, at(second), 3.0, **labels)


def test_nothing_of_a_service_without_telemetry() -> None:
    found = read(Told())
    assert (found.requests, found.nodes, found.measured_s, found.queued) == (0, 0, 0.0, None)


def test_time_is_measured_from_the_first_data_to_the_newest() -> None:
    told = Told()
    for second in range(240, 420, 5):
        serving(told, second, 2)
    found = read(told)
    assert (found.measured_s, found.end, found.requests) == (180.0, at(420), 72)
    assert [one.requests for one in found.steps] == [24.0, 24.0, 24.0] and found.steps[0].prompt_tokens is None


def test_a_minute_without_a_request_is_one_of_none_and_a_part_of_a_minute_is_no_step() -> None:
    told = Told()
    for second in (30, 65, 185, 190):
        serving(told, second, 1)
    assert [one.requests for one in read(told).steps] == [1.0, 0.0], "from 12:01 to 12:03"


def test_replays_on_trial_nodes_and_other_pools_count_nowhere() -> None:
    told = Told()
    serving(told, 0, 4, role="")
    serving(told, 0, 9, node="try-1", role="trial")
    serving(told, 0, 9, node="other-1", pool="code", role="")
    found = read(told)
    assert (found.requests, found.nodes, found.running and found.running.told) == (4, 1, 1)


def test_an_engine_that_reports_itself_and_no_preemption_has_had_none() -> None:
    told = Told()
    serving(told, 0, 4)
    assert read(told).preempted is None
    told.add(metrics.KV_USAGE.short, at(0), 0.7, pool="chat", node="gpu-1")
    found = read(told)
    assert found.preempted == 0.0 and found.kv is not None and found.kv.peak == 0.7


def test_more_than_a_week_is_refused() -> None:
    with pytest.raises(BadRequest, match="week"):
        read(Told(), Span(START - timedelta(days=8), START))


def test_of_much_traffic_the_newest_prompts_are_compared() -> None:
    told = Told(log=[WorkloadRequest(timestamp=0, input_length=32, output_length=1, hash_ids=[1, 2])] * 2)
    for second in range(0, 600, 5):
        serving(told, second, MOST_REQUESTS // 60)
    assert read(told).findable == 0.5
    assert at(298) < told.from_[0] < at(301), "half of them"


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.sampled_from([60, 300]))
def test_whole_steps_lie_within_and_leave_no_room_for_another(first: int, length: int, step_s: int) -> None:
    span = Span(at(first), at(first + length))
    found = whole_steps(span, step_s)
    assert all(one.timestamp() % step_s == 0 for one in found)
    assert all(span.start <= one and one + timedelta(seconds=step_s) <= span.end for one in found)
    assert length - len(found) * step_s < 2 * step_s


@pytest.mark.parametrize(
    ("length", "age", "width_s", "step_s"),
    [
        (timedelta(minutes=15), timedelta(minutes=15), 5, 60),
        (timedelta(minutes=15), timedelta(hours=20), 10, 60),
        (timedelta(hours=6), timedelta(hours=6), 60, 60),
        (timedelta(hours=1), timedelta(days=20), 300, 60),
        (timedelta(days=7), timedelta(days=7), 300, 300),
    ],
)
def test_gauges_are_read_by_windows_that_are_kept_for_so_long(
    length: timedelta, age: timedelta, width_s: float, step_s: float
) -> None:
    span = Span(START - age, START - age + length)
    assert (reading_width_of(span, START), step_of(span)) == (width_s, step_s)


def test_stalls_are_what_gaps_have_beyond_the_median() -> None:
    assert stalls_of(sketch_of([0.01] * 100)) == pytest.approx(0.0, abs=0.03)
    # Of 90 gaps of 10 ms and 10 of 110 ms, which are 2 s together, 1 s lies beyond.
    assert stalls_of(sketch_of([0.01] * 90 + [0.11] * 10)) == pytest.approx(0.5, abs=0.03)
    assert stalls_of(sketch_of([])) is None
    assert stalls_of(sketch_of([0.01, 0.2], relative_error=0.5)) is None, "of wide buckets nobody knows"


@pytest.mark.parametrize(
    ("prompts", "share"),
    [
        ([], None),
        ([(40, [])], None),
        ([(40, [1, 2]), (40, [1, 2])], 32 / 80),
        ([(40, [1, 2]), (40, [3, 2])], 0.0),
        ([(40, [1, 2]), (40, [1, 4]), (40, [1, 4])], 48 / 120),
    ],
    ids=["none", "no hashes", "the same", "another beginning", "part of it"],
)
def test_findable_is_what_an_earlier_prompt_began_with(prompts: Sequence[Any], share: float | None) -> None:
    assert findable(prompts, 16) == share
