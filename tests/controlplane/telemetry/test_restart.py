"""A store that was closed may be started again: it takes reports in as before, and has what it had."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.errors import Unavailable
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics


def test_closed_and_started_again(store: TelemetryStore, make_report: Any, start: datetime) -> None:
    for round_ in range(3):
        report = make_report(node=f"n{round_}", start=start)
        report.histogram([0.1, 0.2])
        assert store.ready()
        assert ingest_metrics(store, report.request).accepted == 1
        store.close()
        assert not store.ready()
        with pytest.raises(Unavailable):
            ingest_metrics(store, report.request)
        store.start()
    found = store.histograms(Question("ttft", Span(start, start + timedelta(seconds=5)), by=["node"]))
    assert [(one.labels["node"], one.total.count) for one in found] == [("n0", 2), ("n1", 2), ("n2", 2)]
