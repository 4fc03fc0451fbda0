"""What users feel of a slow stage, and what an alert is about, in words."""

from datetime import timedelta
from typing import Any

from controlplane.alerts.diagnosis.about import in_words
from controlplane.alerts.diagnosis.felt import felt
from controlplane.telemetry import Span


def test_a_stage_is_felt_in_its_sums_and_a_sum_in_itself(telemetry: Any, plant: Any) -> None:
    start = plant.now
    plant.serve(300)
    middle = plant.now
    plant.serve(60, prefill=8.0)
    spans = Span(start, middle), Span(middle, plant.now + timedelta(seconds=5))
    told = felt(telemetry, {"pool": "main"}, "prefill", *spans, {"factor": 8.04, "low": 7.5, "high": 8.61})
    assert told.startswith(" (all of it x8.04, 7.5 to 8.61); with it TTFT p99 from ") and ", E2E p99 from " in told
    assert felt(telemetry, {"pool": "main"}, "itl", *spans).startswith("; with it E2E p99")
    assert felt(telemetry, {"pool": "main"}, "ttft", *spans) == ""
    assert felt(telemetry, {"pool": "nobody"}, "prefill", *spans) == ""


def test_a_sum_that_did_not_rise_is_told_as_that(telemetry: Any, plant: Any) -> None:
    start = plant.now
    plant.serve(120, queue=40.0)
    middle = plant.now
    plant.serve(120)
    told = felt(telemetry, {"pool": "main"}, "prefill", Span(start, middle), Span(middle, plant.now))
    assert "TTFT p99 did not rise, from" in told


def test_what_an_alert_is_about_in_words() -> None:
    assert in_words({"revisions": {"2": 0.9, "1": 0.1}, "engines": {"vllm 0.32.0": 4}}) == (
        " under revision 2 and 1 on vllm 0.32.0"
    )
    assert in_words({"revisions": {}, "engines": {}}) == ""
