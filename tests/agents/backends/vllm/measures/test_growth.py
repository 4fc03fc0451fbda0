"""Nothing is lost and nothing counted twice, whatever the server does between two readings."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.backends.vllm.measures.growth import continued, growth, restarted
from agents.backends.vllm.measures.scrape_reading import Reading, Series

BOUNDS = ("0.3", "1.0", "+Inf")


@dataclass
class Server:
    """Counts as vLLM does; `restart` forgets."""

    started: float | None
    requests: int = 0
    buckets: list[int] = field(default_factory=lambda: [0, 0, 0])

    def serve(self, bucket: int) -> None:
        self.requests += 1
        for place in range(bucket, 3):
            self.buckets[place] += 1

    def read(self, time_s: float) -> Reading:
        name = "vllm:e2e_request_latency_seconds"
        totals = {
            Series(f"{name}_bucket", bound, "", "engine=0"): float(count)
            for bound, count in zip(BOUNDS, self.buckets, strict=True)
        }
        totals[Series(f"{name}_sum", "", "", "engine=0")] = self.requests * 0.5
        totals[Series("vllm:request_success_total", "", "stop", "engine=0")] = float(self.requests)
        return Reading(time_s, self.started, "m", totals)


actions = st.lists(st.one_of(st.integers(0, 2), st.just("read"), st.just("restart")), min_size=1, max_size=80)


@given(actions)
def test_growths_add_up_to_what_was_served_before_each_last_reading(steps: list[int | str]) -> None:
    server, before, now_s = Server(started=0.0), None, 0.0
    told, in_buckets, since_reading, seen = 0, [0, 0, 0], 0, 0
    for step in [*steps, "read"]:
        now_s += 10.0
        if step == "read":
            now = server.read(now_s)
            grown = growth(before, now)
            told += grown.requests.get("stop", 0)
            if "e2e" in grown.buckets:
                in_buckets = [a + b for a, b in zip(in_buckets, grown.buckets["e2e"].counts, strict=True)]
            before = now if before is None else continued(before, now)
            seen, since_reading = seen + since_reading, 0
        elif step == "restart":
            server, since_reading = Server(started=now_s), 0
        else:
            server.serve(step)
            since_reading += 1
    assert told == sum(in_buckets) == seen


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_a_server_that_tells_no_start_time_shows_its_restart_by_a_fall(batches: list[int]) -> None:
    before, told = None, 0
    for place, count in enumerate(batches):
        server = Server(started=None)
        for _ in range(count):
            server.serve(place % 3)
        now = server.read(float(place))
        fell = before is not None and any(now.totals[one] < total for one, total in before.totals.items())
        assert before is None or restarted(before, now) is fell
        if before is None or fell:
            told += growth(before, now).requests["stop"]
            assert growth(before, now).requests["stop"] == count
        before = now


def test_a_series_that_is_missing_for_once_is_not_counted_again() -> None:
    server = Server(started=1.0)
    for _ in range(5):
        server.serve(0)
    first = server.read(1.0)
    partial = Reading(2.0, 1.0, "m", {one: total for one, total in first.totals.items() if one.reason == ""})
    server.serve(1)
    known = continued(first, partial)
    assert growth(known, server.read(3.0)).requests == {"stop": 1}


@pytest.mark.parametrize(("later", "expected"), [(100.4, False), (130.0, True)])
def test_a_start_time_is_known_to_the_tick_only(later: float, expected: bool) -> None:
    assert restarted(Server(started=100.0).read(200.0), Server(started=later).read(300.0)) is expected


def test_what_each_engine_tells_of_one_of_its_gpus_is_their_mean() -> None:
    """With --enable-mfu-metrics and data parallelism."""

    def reading(first: float, second: float) -> Reading:
        name = "vllm:estimated_flops_per_gpu_total"
        totals = {Series(name, "", "", f"engine={place}"): value for place, value in enumerate((first, second))}
        return Reading(1.0, 0.0, "m", {**totals, Series("vllm:num_preemptions_total", "", "", "engine=0"): first})

    found = growth(reading(1e15, 2e15), reading(4e15, 3e15)).counts
    assert found == {"estimated_flops_per_gpu": 2 * 10**15, "preemptions": 3 * 10**15}
