"""What belongs to which arm, and to which window."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from controlplane.contract.metrics import DELIVERED_TOKENS, ITL, REQUESTS, TTFT
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.arms import READ_S, Arm, every_tick, ticks, window_ceiling, window_floor
from controlplane.rollouts.judging.served import Outcomes
from controlplane.telemetry import Span
from tests.controlplane.rollouts.conftest import sketch_of
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CONTROL = Arm(("a", "b"), frozenset({"1"}))
CANARY = Arm(("c",), frozenset({"2"}))


def of(*values: float) -> Sketch:
    return sketch_of(np.array(values))


@pytest.mark.parametrize(
    ("second", "floor", "ceiling"), [(0.0, 0, 0), (0.001, 0, 5), (4.999, 0, 5), (5.0, 5, 5), (12.5, 10, 15)]
)
def test_windows_of_five_seconds(second: float, floor: int, ceiling: int) -> None:
    time = START + timedelta(seconds=second)
    assert window_floor(time) == START + timedelta(seconds=floor)
    assert window_ceiling(time) == START + timedelta(seconds=ceiling)


def test_each_arm_has_its_nodes_under_its_labels(telemetry: FakeReader) -> None:
    for node, revision, value in (
        *(("a", "1", 0.1), ("b", "1", 0.2), ("a", "2", 9.0)),  # A node of the control that ran the new one: neither.
        *(("c", "2", 0.3), ("c", "1", 9.0), ("d", "1", 9.0)),
    ):
        telemetry.add(TTFT.short, START, of(value), node=node, revision=revision, prompt_bucket="<=512")
    ((time, tick),) = ticks(telemetry, ["ttft"], CONTROL, CANARY, Span(START, START + timedelta(seconds=5)))
    window = tick.windows["ttft"]
    assert time == START and (window.control["<=512"].count, window.canary["<=512"].count) == (2, 1)
    assert window.control["<=512"].quantile(1.0) < 1.0


def test_prompt_buckets_stay_apart_and_windows_are_in_order(telemetry: FakeReader) -> None:
    for seconds, bucket in ((5, "<=512"), (0, "<=4096"), (0, "<=512"), (10, "<=512")):
        at = START + timedelta(seconds=seconds)
        telemetry.add(TTFT.short, at, of(0.1), node="a", revision="1", prompt_bucket=bucket)
    found = ticks(telemetry, ["ttft"], CONTROL, CANARY, Span(START, START + timedelta(seconds=10)))
    assert [(time - START).total_seconds() for time, _ in found] == [0.0, 5.0]
    assert [sorted(tick.windows["ttft"].control) for _, tick in found] == [["<=4096", "<=512"], ["<=512"]]


def test_requests_are_counted_for_the_arm_that_they_ended_in(telemetry: FakeReader) -> None:
    for node, revision, reason, requests in (
        *(("a", "1", "stop", 10), ("a", "1", "error", 3), ("b", "1", "shed", 2)),
        *(("c", "2", "stop", 7), ("c", "2", "timeout", 1), ("c", "2", "abort", 5)),  # Left by its client: no request.
    ):
        telemetry.add(REQUESTS.short, START, requests, node=node, revision=revision, finish_reason=reason)
    ((_, tick),) = ticks(telemetry, ["ttft"], CONTROL, CANARY, Span(START, START + timedelta(seconds=5)))
    assert tick.outcomes == Outcomes(
        control=15, control_lost=5, canary=8, canary_lost=1,
        control_reasons={"error": 3, "shed": 2}, canary_reasons={"timeout": 1},
    )  # fmt: skip


def test_tokens_of_deliveries_go_with_the_gaps_alone(telemetry: FakeReader) -> None:
    for node, revision, tokens in (("a", "1", 30), ("b", "1", 12), ("c", "2", 50)):
        telemetry.add(DELIVERED_TOKENS.short, START, tokens, node=node, revision=revision, prompt_bucket="<=512")
    ((_, tick),) = ticks(telemetry, [ITL.short], CONTROL, CANARY, Span(START, START + timedelta(seconds=5)))
    assert (tick.windows["itl"].control_tokens, tick.windows["itl"].canary_tokens) == (42, 50)
    assert ticks(telemetry, ["ttft"], CONTROL, CANARY, Span(START, START + timedelta(seconds=5))) == []


def test_a_long_past_is_read_in_parts_window_by_window_with_those_that_are_empty(telemetry: FakeReader) -> None:
    served = (0.0, READ_S - 5.0, READ_S, 2 * READ_S + 5.0)
    for seconds in served:
        at = START + timedelta(seconds=seconds)
        telemetry.add(TTFT.short, at, of(0.1), node="a", revision="1", prompt_bucket="<=512")
    span = Span(START, START + timedelta(seconds=2 * READ_S + 15.0))
    found = every_tick(telemetry, ["ttft"], CONTROL, CANARY, span)
    assert [5.0 * place for place, tick in enumerate(found) if tick.windows] == list(served)
    assert len(found) == (2 * READ_S + 15.0) / 5.0
    spans = [question.span for question in telemetry.asked]
    assert max(span.end - span.start for span in spans) <= timedelta(seconds=READ_S)
    assert max(span.end for span in spans) == span.end


def test_a_sender_without_labels_is_told_apart_by_time(telemetry: FakeReader) -> None:
    since = Arm(("a",), frozenset({""}), unlabelled_from=START + timedelta(seconds=5))
    for seconds in (0, 5, 10):
        telemetry.add(TTFT.short, START + timedelta(seconds=seconds), of(0.1), node="a")
    found = ticks(telemetry, ["ttft"], since, Arm((), frozenset()), Span(START, START + timedelta(seconds=15)))
    assert [(time - START).total_seconds() for time, _ in found] == [5.0, 10.0]
    always = Arm(("a",), frozenset({""}))
    assert (
        len(ticks(telemetry, ["ttft"], always, Arm((), frozenset()), Span(START, START + timedelta(seconds=15)))) == 3
    )
