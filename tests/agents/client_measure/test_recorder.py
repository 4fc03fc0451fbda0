"""Counting, from one thread and from many."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent.reports.latency_series import Distribution
from agents.client_measure import ClientRecord, Ending, NetworkTime, Recorder
from agents.client_measure.record_tally import MODEL_LIMIT, OTHER_MODEL, Tally
from controlplane.contract import metrics
from controlplane.contract.histogram import RELATIVE_ERROR, ZERO_THRESHOLD_S

SECONDS = st.floats(0.0, 900.0)


def record(number: int = 0, **more: Any) -> ClientRecord:
    values = {"request_id": f"r-{number}", "started": 1_000_000.0 + number, "ending": Ending.COMPLETE, "e2e_s": 2.0}
    return ClientRecord(**{**values, "model": "m", "ttft_s": 0.5, "pieces": 4, "gaps_s": (0.5, 0.5, 0.5), **more})


def network(number: int = 0, **more: Any) -> NetworkTime:
    values = {
        "request_id": f"r-{number}",
        "node": "node-a",
        "model": "m",
        "ended": 1_000_000.0,
        "network_s": 0.25,
        "network_ttft_s": 0.125,
        "connect_s": None,
        "tls_s": None,
        "pool_s": 0.0,
        "client_e2e_s": 2.0,
        "server_e2e_s": 1.75,
        "uncertainty_s": 0.0,
    }
    return NetworkTime(**{**values, **more})


def test_a_complete_request_counts_everywhere(recorder: Recorder) -> None:
    recorder.record(record(connect_s=0.125, tls_s=0.25, finish_reason="stop"))
    recorder.record_network([network()])
    seen = recorder.snapshot()
    expected = {
        metrics.CLIENT_E2E: 2.0,
        metrics.CLIENT_TTFT: 0.5,
        metrics.CLIENT_TPOT: 0.5,
        metrics.CLIENT_ITL: 0.5,
        metrics.CLIENT_CONNECT: 0.125,
        metrics.CLIENT_TLS: 0.25,
        metrics.CLIENT_NETWORK: 0.25,
        metrics.CLIENT_NETWORK_TTFT: 0.125,
    }
    for metric, value in expected.items():
        assert seen.quantile(metric, 0.5) == value, metric.short
    assert seen.count(metrics.CLIENT_ITL) == 3
    assert seen.ended == {("m", "stop"): 1} and seen.requests == 1 and seen.dropped == 0


def test_what_did_not_complete_counts_only_as_such(recorder: Recorder) -> None:
    recorder.record(record(ending=Ending.ERROR, error="429", connect_s=0.5))
    recorder.record(record(ending=Ending.CANCELLED))
    seen = recorder.snapshot()
    assert seen.ended == {("m", "error"): 1, ("m", "cancelled"): 1}
    assert seen.count(metrics.CLIENT_E2E) == seen.count(metrics.CLIENT_ITL) == 0
    assert seen.quantile(metrics.CLIENT_E2E, 0.5) is None
    assert seen.count(metrics.CLIENT_CONNECT) == 1, "a connection was made, whatever came of the request"


def test_an_answer_without_a_finish_reason_is_complete_all_the_same(recorder: Recorder) -> None:
    recorder.record(record())
    assert recorder.snapshot().ended == {("m", "unsaid"): 1}


@given(st.lists(SECONDS, min_size=1), st.floats(0.0, 1.0))
def test_quantiles_are_within_the_axis_error(values: list[float], q: float) -> None:
    recorder = Recorder("c")
    for number, value in enumerate(values):
        recorder.record(record(number, e2e_s=value, ttft_s=None))
    found = recorder.snapshot().quantile(metrics.CLIENT_E2E, q)
    assert found is not None
    expected = sorted(values)[int(q * (len(values) - 1))]
    assert found == pytest.approx(expected, rel=RELATIVE_ERROR, abs=ZERO_THRESHOLD_S)


@given(st.lists(st.tuples(st.integers(0, 500), SECONDS, st.booleans())))
def test_taking_windows_loses_nothing(counted: list[tuple[int, float, bool]]) -> None:
    tally, all_values = Tally(), Distribution()
    taken = 0
    for number, seconds, take in counted:
        tally.count(record(number, e2e_s=seconds))
        all_values.record(seconds)
        if take:
            taken += sum(window.series["m"][metrics.CLIENT_E2E].count for window in tally.take().values())
    left = sum(window.series["m"][metrics.CLIENT_E2E].count for window in tally.windows.values())
    assert taken + left == len(counted)
    totals = tally.totals()
    if counted:
        found = totals.series["m"][metrics.CLIENT_E2E]
        assert (found.buckets, found.count, found.zero_count) == (
            all_values.buckets,
            all_values.count,
            all_values.zero_count,
        )
        assert (found.minimum, found.maximum) == (all_values.minimum, all_values.maximum)
        assert found.total == pytest.approx(all_values.total)


def test_a_record_counts_in_the_window_of_its_end() -> None:
    tally = Tally()
    tally.count(record(started=999_999.0, e2e_s=0.5))
    tally.count(record(started=999_999.0, e2e_s=1.5))
    assert sorted(tally.windows) == [199_999, 200_000]


def test_models_beyond_the_limit_are_one() -> None:
    tally = Tally()
    for number in range(MODEL_LIMIT + 5):
        tally.count(record(number, started=1.0, model=f"m-{number}"))
    ended = tally.totals().ended
    assert len(ended) == MODEL_LIMIT + 1 and ended[OTHER_MODEL, "unsaid"] == 5


def test_memory_does_not_grow_with_time_where_nobody_takes(recorder: Recorder) -> None:
    for number in range(2000):
        recorder.record(record(5 * number))
    assert len(recorder._tally.windows) < 50
    assert recorder.snapshot().requests == 2000


def test_kept_records_are_the_newest_and_taken_once() -> None:
    recorder = Recorder("c", keep=3)
    for number in range(5):
        recorder.record(record(number))
    taken = recorder.take_records()
    assert [one.request_id for one in taken] == ["r-2", "r-3", "r-4"]
    assert all(one.gaps_s == () and one.pieces == 4 for one in taken)
    assert recorder.take_records() == []


def test_many_threads_lose_nothing(recorder: Recorder) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 500):
            recorder.record(record(number))

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.snapshot().requests == 3000
    assert recorder.snapshot().count(metrics.CLIENT_ITL) == 9000


def test_a_busy_recorder_keeps_nobody_waiting(recorder: Recorder) -> None:
    with recorder._busy:  # As when an object ends, and records, inside the recorder's own work.
        recorder.record(record())
    assert recorder.snapshot().requests == 1
