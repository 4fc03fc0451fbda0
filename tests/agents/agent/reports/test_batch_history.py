"""What a request is told of the batch it ran in."""

from typing import Any

import pytest

from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.batch_history import KEPT_S, SLOT_S, BatchHistory
from controlplane.contract.reports.engine_event import FinishedEvent, StepEvent

T = 1_772_366_400.0


def step(at_s: float, running: int, waiting: int = 0, kv_usage: float = 0.5, tokens: int = 10) -> StepEvent:
    return StepEvent(
        kind="step",
        seq=1,
        time=T + at_s,
        revision=1,
        running=running,
        waiting=waiting,
        kv_usage=kv_usage,
        batched_tokens=tokens,
        draft_tokens=0,
        accepted_tokens=0,
        preemptions=0,
    )


def finished(arrival_s: float, e2e: float, ttft: float | None, **more: Any) -> FinishedEvent:
    return FinishedEvent(  # type: ignore[typeddict-item]
        kind="finished",
        seq=2,
        time=T + arrival_s + e2e,
        revision=1,
        request_id="r",
        finish_reason="stop",
        arrival=T + arrival_s,
        prompt_tokens=10,
        cached_tokens=0,
        output_tokens=5,
        block_size=16,
        block_hashes=[],
        e2e=e2e,
        ttft=ttft,
        tpot=None,
        **dict.fromkeys(("receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted"), 0.0),
        **more,
    )


def batch_of(history: BatchHistory, event: FinishedEvent) -> dict[str, float]:
    history.see(event)
    return event.get("batch", {})


def test_the_step_of_the_first_token_and_the_peaks_of_the_whole_stay() -> None:
    history = BatchHistory()
    for at_s, running, waiting, kv, tokens in (
        (-5.0, 99, 99, 0.99, 999),  # Before it came.
        (0.0, 1, 9, 0.1, 512),
        (1.0, 2, 8, 0.2, 64),
        (2.0, 6, 0, 0.7, 6),
        (9.0, 98, 98, 0.98, 998),  # After it had gone.
    ):
        history.see(step(at_s, running, waiting, kv, tokens))
    assert batch_of(history, finished(-0.05, 4.0, 1.5)) == {
        "running": 2.0,
        "waiting": 8.0,
        "kv_usage": 0.2,
        "step_tokens": 64.0,
        "peak_running": 6.0,
        "peak_waiting": 9.0,
        "peak_kv_usage": 0.7,
        "peak_step_tokens": 512.0,
    }


def test_many_steps_of_one_slot_keep_the_last_and_the_most() -> None:
    history = BatchHistory()
    for place, running in enumerate((3, 8, 5)):
        history.see(step(place * SLOT_S / 10, running))
    found = batch_of(history, finished(0.0, SLOT_S / 2, None))
    assert (found["running"], found["peak_running"]) == (5.0, 8.0)


def test_nothing_seen_is_nothing_told() -> None:
    history = BatchHistory()
    assert batch_of(history, finished(0.0, 1.0, 0.5)) == {}
    history.see(step(5.0, 1))
    assert batch_of(history, finished(0.0, 1.0, 0.5)) == {}


def test_an_engine_that_samples_rarely_tells_what_it_told_next() -> None:
    history = BatchHistory()
    history.see(step(3.0, 4))
    assert batch_of(history, finished(0.0, 5.0, 1.0))["running"] == 4.0


def test_what_the_engine_tells_itself_stays() -> None:
    history = BatchHistory()
    history.see(step(0.0, 1))
    assert batch_of(history, finished(0.0, 1.0, 0.5, batch={"running": 7.0})) == {"running": 7.0}


def test_a_clock_that_steps_back_loses_no_peak() -> None:
    history = BatchHistory()
    history.see(step(1.0, 1))
    history.see(step(0.5, 9))
    assert batch_of(history, finished(0.9, 0.3, None))["peak_running"] == 9.0


def test_memory_is_bounded() -> None:
    history = BatchHistory()
    slots = int(KEPT_S / SLOT_S)
    for number in range(slots + 100):
        history.see(step(number * SLOT_S + SLOT_S / 2, number % 7))
    assert len(history._slots) == slots


def test_the_accumulator_adds_it_to_finished_requests() -> None:
    accumulator = Accumulator(None, 5.0)
    accumulator.hello({"kind": "hello", "boot": "b", "oldest": 1, "model": "m"})
    accumulator.count(step(0.1, 4))
    accumulator.count(finished(0.0, 1.0, 0.5))
    accumulator.seal()
    (tally,) = accumulator.take()
    ((_, event),) = tally.finished
    assert event["batch"]["running"] == pytest.approx(4.0)
