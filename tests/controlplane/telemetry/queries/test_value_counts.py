"""How many values histograms hold: what their sketches say, in the head and in frames alike."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics


@pytest.mark.parametrize(
    ("by", "where"),
    [
        ((), {}),
        (("pool",), {}),
        (("pool", "node"), {}),
        (("node",), {"pool": ["a", "b"]}),
        (("prompt_bucket",), {"pool": "a"}),
        (("pool",), {"node": ["a0", "c1"]}),
        ((), {"pool": "nobody's"}),
    ],
)
@pytest.mark.parametrize("step_s", [None, 5.0, 60.0])
def test_as_the_sketches_say(
    store: TelemetryStore, make_report: Any, start: datetime, clock: Any, by: Any, where: Any, step_s: float | None
) -> None:
    for window in (0, 1, 5, 30):
        for pool in "abc":
            for node in range(2):
                report = make_report(node=f"{pool}{node}", pool=pool, start=start + timedelta(seconds=5 * window))
                report.histogram([0.1] * (1 + window + node), prompt_bucket="<=128")
                report.histogram([0.2] * 3, prompt_bucket="<=512").zero_count = 0
                ingest_metrics(store, report.request)
    span = (start, start + timedelta(minutes=10))
    for _ in range(2):
        sketches = store.histograms(Question("ttft", Span(*span), by=by, where=where, step_s=step_s))
        assert [
            (one.labels, one.total.count, [(time, sketch.count) for time, sketch in one.steps]) for one in sketches
        ] == [
            (one.labels, one.value, one.steps)
            for one in store.counts(Question("ttft", Span(*span), by=by, where=where, step_s=step_s))
        ]
        store.tick(clock())  # The second time from frames.
    if where != {"pool": "nobody's"}:
        assert sketches


def test_of_histograms_only(store: TelemetryStore, start: datetime) -> None:
    with pytest.raises(BadRequest, match="running is a gauge"):
        store.counts(Question("running", Span(start, start + timedelta(minutes=1))))
