"""Intervals go out in order, at least once, across failures, restarts and replicas; what is given up is counted."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controlplane.contract.errors import BadRequest
from controlplane.contract.retry import LONGEST_PAUSE_S
from controlplane.db.database import Database
from controlplane.telemetry.forwarding.attempt import Refused, Undelivered
from controlplane.telemetry.forwarding.exporter import Exporter, Sent
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.position import LEASE_S
from controlplane.telemetry.values.timespan import Span
from tests.made_tables import create_tables

START = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Receiver:
    """Takes what it is sent, or raises what it was told to."""

    name = "test"

    def __init__(self, interval_s: int = 60) -> None:
        self.interval_s = interval_s
        self.taken: list[Span] = []
        self.tried: list[Span] = []
        self.answers: list[BaseException | Callable[[], None]] = []

    def send(self, interval: Span) -> Sent:
        self.tried.append(interval)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            answer()
        self.taken.append(interval)
        return Sent(points=3, refused=1)

    def close(self) -> None:
        pass


class Bench:
    """A receiver, a database, and exporters over them that come and go."""

    def __init__(self, path: Path, *, longest_lag_s: float = 3600.0) -> None:
        self.database = Database(f"sqlite:///{path / 'export.db'}")
        create_tables(self.database)
        self.receiver = Receiver()
        self.registry = CollectorRegistry()
        self.meters = ExportMeters(self.registry)
        self._longest_lag_s = longest_lag_s
        self.exporter = self.another()

    def another(self, receiver: Receiver | None = None) -> Exporter:
        return Exporter(
            receiver or self.receiver, self.database, self.meters, delay_s=0, longest_lag_s=self._longest_lag_s
        )

    def counted(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"exporter": "test", **labels})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.database.close()


def starts(intervals: list[Span]) -> list[datetime]:
    return [interval.start for interval in intervals]


def test_each_finished_minute_goes_out_once_and_in_order(bench: Bench) -> None:
    assert bench.exporter.tick(START) == 0, "the minute under way is not finished"
    for seconds in range(0, 300, 10):
        bench.exporter.tick(START + timedelta(seconds=seconds))
    noon = START.replace(second=0)
    assert starts(bench.receiver.taken) == [noon + MINUTE * k for k in range(5)]
    assert all(interval.end - interval.start == MINUTE for interval in bench.receiver.taken)
    assert bench.counted("tailwright_export_intervals_total") == 5
    assert bench.counted("tailwright_export_points_total") == 15
    assert bench.counted("tailwright_export_points_refused_total") == 5
    assert bench.counted("tailwright_export_lag_seconds") == 20


def test_an_interval_waits_for_late_reports(bench: Bench) -> None:
    exporter = Exporter(bench.receiver, bench.database, bench.meters, delay_s=20, longest_lag_s=3600)
    for seconds in (0, 31, 49):
        assert exporter.tick(START + timedelta(seconds=seconds)) == 0
    assert exporter.tick(START + timedelta(seconds=50)) == 1


def test_after_a_start_what_was_spooled_meanwhile_is_waited_for(bench: Bench) -> None:
    bench.exporter.tick(START)
    exporter = Exporter(bench.receiver, bench.database, bench.meters, delay_s=20, longest_lag_s=3600)
    later = START + 10 * MINUTE
    assert exporter.tick(later) == 0
    assert exporter.tick(later + timedelta(seconds=19)) == 0
    assert exporter.tick(later + timedelta(seconds=20)) == 10


def test_a_restart_goes_on_where_the_last_run_stopped(bench: Bench) -> None:
    bench.exporter.tick(START)
    bench.exporter.tick(START + 2 * MINUTE)
    bench.another().tick(START + 6 * MINUTE)
    noon = START.replace(second=0)
    assert starts(bench.receiver.taken) == [noon + MINUTE * k for k in range(6)]


def test_a_failure_is_tried_again_with_growing_pauses_and_told(bench: Bench) -> None:
    bench.exporter.tick(START)
    bench.receiver.answers = [Undelivered("ConnectError", "no"), Undelivered("HTTP 503", "no", 100.0)]
    now = START + MINUTE
    assert bench.exporter.tick(now) == 0
    assert bench.exporter.report()["failing"] and bench.exporter.report()["last_error"] == "ConnectError"
    assert bench.counted("tailwright_export_failing") == 1
    assert bench.exporter.tick(now + timedelta(seconds=0.9)) == 0 and len(bench.receiver.tried) == 1
    assert bench.exporter.tick(now + timedelta(seconds=1)) == 0 and len(bench.receiver.tried) == 2
    assert bench.exporter.tick(now + timedelta(seconds=100)) == 0, "Retry-After holds"
    assert bench.exporter.tick(now + timedelta(seconds=101)) == 3
    noon = START.replace(second=0)
    assert starts(bench.receiver.tried) == [noon, noon, noon, noon + MINUTE, noon + 2 * MINUTE]
    assert not bench.exporter.report()["failing"] and bench.counted("tailwright_export_failing") == 0
    assert bench.counted("tailwright_export_failures_total") == 2


def test_what_cannot_be_read_waits_too(bench: Bench) -> None:
    bench.exporter.tick(START)
    bench.receiver.answers = [BadRequest("step: over 20000 groups")]
    assert bench.exporter.tick(START + MINUTE) == 0 and bench.exporter.error == "bad_request"
    assert bench.exporter.tick(START + MINUTE + timedelta(seconds=1)) == 1 and bench.exporter.error == ""


def test_what_a_receiver_refuses_for_good_is_given_up_and_the_next_goes_out(bench: Bench) -> None:
    bench.exporter.tick(START)
    bench.receiver.answers = [Refused("answered 400")]
    assert bench.exporter.tick(START + 2 * MINUTE) == 2
    assert starts(bench.receiver.taken) == [START.replace(second=0) + MINUTE]
    assert bench.counted("tailwright_export_intervals_dropped_total", reason="refused") == 1


def test_beyond_the_longest_lag_intervals_are_given_up(bench: Bench) -> None:
    bench.exporter.tick(START)
    assert bench.exporter.tick(START + timedelta(hours=3)) == 61
    assert bench.counted("tailwright_export_intervals_dropped_total", reason="lag") == 120
    assert bench.receiver.taken[0].start == START.replace(hour=14, second=0)


def test_two_replicas_do_not_send_the_same_interval_at_once(bench: Bench) -> None:
    bench.exporter.tick(START)
    theirs = Receiver()
    other = bench.another(theirs)
    bench.receiver.answers = [lambda: None if other.tick(START + MINUTE) == 0 else pytest.fail("sent twice")]
    assert bench.exporter.tick(START + MINUTE) == 1
    assert theirs.tried == [] and len(bench.receiver.taken) == 1
    assert other.tick(START + 2 * MINUTE) == 1
    assert starts(theirs.taken) == [START.replace(second=0) + MINUTE]


def test_a_replica_that_dies_while_sending_is_followed_after_its_lease(bench: Bench) -> None:
    bench.exporter.tick(START)
    now = START + MINUTE
    bench.receiver.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        bench.exporter.tick(now)
    other = bench.another()
    assert other.tick(now + timedelta(seconds=LEASE_S - 1)) == 0
    assert other.tick(now + timedelta(seconds=LEASE_S)) == 2
    assert bench.receiver.taken[0].start == START.replace(second=0)


def test_another_length_of_interval_neither_repeats_nor_leaves_out(bench: Bench) -> None:
    bench.exporter.tick(START)
    bench.exporter.tick(START + MINUTE)
    bench.receiver.interval_s = 300
    bench.another().tick(START + 10 * MINUTE)
    taken = bench.receiver.taken
    assert all(before.end == after.start for before, after in pairwise(taken))
    assert [interval.seconds for interval in taken] == [60, 240, 300]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)  # Each step is a commit.
@given(st.lists(st.sampled_from(["taken", "fails", "dies", "restart"]), max_size=40))
def test_whatever_fails_every_interval_is_taken_in_order(
    tmp_path_factory: pytest.TempPathFactory, story: list[str]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("story"), longest_lag_s=1e6)
    try:
        exporter = bench.exporter
        exporter.tick(START)
        now = START
        for event in story:
            now += MINUTE
            bench.receiver.answers = {"fails": [Undelivered("x", "x")], "dies": [KeyboardInterrupt()]}.get(event, [])
            if event == "restart":
                exporter = bench.another()
            try:
                exporter.tick(now)
            except KeyboardInterrupt:
                exporter = bench.another()
        bench.receiver.answers = []
        now += timedelta(seconds=LONGEST_PAUSE_S)
        while exporter.tick(now):
            pass
        taken = starts(bench.receiver.taken)
        assert taken == [START.replace(second=0) + MINUTE * k for k in range(len(taken))]
        assert taken[-1] + MINUTE <= now < taken[-1] + 2 * MINUTE
    finally:
        bench.database.close()
