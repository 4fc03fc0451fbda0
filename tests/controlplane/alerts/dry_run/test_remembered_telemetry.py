"""What is read ahead answers as telemetry itself does."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.alerts.dry_run import remembered_telemetry
from controlplane.alerts.dry_run.remembered_telemetry import RememberedTelemetry
from controlplane.telemetry import Question, Span


def test_a_window_that_moves_on_has_the_same_counts_and_asks_rarely(telemetry: Any, plant: Any) -> None:
    begin = plant.now
    plant.serve(600)
    remembered = RememberedTelemetry(telemetry, plant.now)
    questions = [
        Question("ttft", Span(begin + timedelta(seconds=at), begin + timedelta(seconds=at + 60)), ("prompt_bucket",))
        for at in range(0, 540, 5)
    ]
    found = [remembered.histograms(question) for question in questions]
    assert len(telemetry.asked) == 1
    for question, series in zip(questions, found, strict=True):
        for ours, theirs in zip(series, telemetry.histograms(question), strict=True):
            assert ours.labels == theirs.labels and np.array_equal(ours.total.counts, theirs.total.counts)
            assert ours.total.zero_count == theirs.total.zero_count
            assert np.isclose(ours.total.total, theirs.total.total)


@pytest.mark.parametrize("most_bytes", [1 << 30, 0])
def test_a_long_window_is_remembered_too_and_room_goes_to_what_is_asked_now(
    telemetry: Any, plant: Any, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(remembered_telemetry, "MOST_BYTES", most_bytes)
    begin = plant.now
    plant.serve(600)
    remembered = RememberedTelemetry(telemetry, plant.now)
    for at in range(0, 100, 20):
        for metric in ("ttft", "itl"):
            moving = Span(begin + timedelta(seconds=at - 86400), begin + timedelta(seconds=at))
            question = Question(metric, moving)
            ours, theirs = remembered.histograms(question), telemetry.histograms(question)
            assert [one.total.counts.tolist() for one in ours] == [one.total.counts.tolist() for one in theirs]
    asked = [question for question in telemetry.asked if question.step_s is not None]
    assert len(asked) == (2 if most_bytes else 10)


def test_questions_by_step_go_through(telemetry: Any, plant: Any) -> None:
    begin = plant.now
    plant.serve(60)
    remembered = RememberedTelemetry(telemetry, plant.now)
    question = Question("ttft", Span(begin, plant.now), step_s=5.0)
    (ours,), (theirs,) = remembered.histograms(question), telemetry.histograms(question)
    assert [time for time, _ in ours.steps] == [time for time, _ in theirs.steps]
    assert remembered.latest() == plant.now
