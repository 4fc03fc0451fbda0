"""Reading while folding and writing go on: every answer is of one moment."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics


@pytest.mark.slow
def test_a_reader_never_sees_half_of_a_fold(
    store: TelemetryStore, make_report: Any, clock: Any, start: datetime
) -> None:
    later = clock() + timedelta(hours=1)
    done = threading.Event()
    acknowledged = [0]
    failures: list[Exception] = []

    def write() -> None:
        try:
            for i in range(60):
                report = make_report(node=f"n{i % 3}", start=start + timedelta(seconds=5 * (i % 7)), seconds=5)
                report.start_ns -= i  # A report of its own, though in a window that others share.
                report.histogram([0.1] * 10, model=f"m{i % 5}")
                ingest_metrics(store, report.request)
                acknowledged[0] += 10
        except Exception as error:  # noqa: BLE001 (shown by the test's own thread)
            failures.append(error)
        finally:
            done.set()

    def fold() -> None:
        try:
            while not done.is_set():
                store.tick(later)
        except Exception as error:  # noqa: BLE001 (shown by the test's own thread)
            failures.append(error)

    threads = [threading.Thread(target=write), threading.Thread(target=fold)]
    for thread in threads:
        thread.start()
    seen = 0
    while not done.is_set():
        least = acknowledged[0]
        found = store.histograms(Question("ttft", Span(start, start + timedelta(minutes=1))))
        count = sum(series.total.count for series in found)
        assert count >= max(seen, least) and count % 10 == 0 and count <= acknowledged[0] + 10
        seen = count
    for thread in threads:
        thread.join()
    assert not failures
    assert (
        sum(
            series.total.count
            for series in store.histograms(Question("ttft", Span(start, start + timedelta(minutes=1))))
        )
        == 600
    )
