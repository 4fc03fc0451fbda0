"""The running engine: deadlines, displaced requests, limits that move by themselves, and what they leave behind."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pydantic import ValidationError

from agents.engine.core.engine import Engine
from agents.engine.core.step import StepEngine, TokenOutput
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.request.timing import monotonic
from agents.engine.scheduling.request import FinishReason, Request
from controlplane.contract.errors import BadRequest, DeadlineUnmet, Overloaded
from controlplane.contract.knobs import parse_config

STEP_S = 0.005
LONG = 400
"""Output tokens of a request that runs for two seconds at least."""


@pytest.fixture(autouse=True)
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    step = StepEngine.step

    def slow(self: StepEngine) -> list[TokenOutput]:
        time.sleep(STEP_S)
        return step(self)

    monkeypatch.setattr(StepEngine, "step", slow)


class Client:
    """Submits and reads as the server does."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._outputs: dict[Request, Queue[TokenOutput]] = {}

    def submit(self, outputs: int, *, length: int = 5, timeout_s: float | None = None, priority: int = 0) -> Request:
        now = monotonic()
        request = Request(
            "r", [3] * length, SamplingParams(outputs), priority=priority, deadline=self.engine.deadline(timeout_s, now)
        )
        self.engine.check(length, outputs, priority=priority, deadline=request.deadline)
        self._outputs[request] = Queue()
        self.engine.submit(request, self._receive)
        return request

    def next(self, request: Request) -> TokenOutput:
        return self._outputs[request].get(timeout=30)

    def last(self, request: Request) -> TokenOutput:
        while (output := self.next(request)).finish_reason is None:
            pass
        return output

    def _receive(self, outputs: Sequence[TokenOutput]) -> None:
        for output in outputs:
            self._outputs[output.request].put(output)


@contextmanager
def _serving(model_dir: Path, seats: int = 1, **options: Any) -> Iterator[Client]:
    engine = Engine(EngineOptions(model_dir, config=parse_config({"max_num_seqs": seats}), **options))
    engine.start()
    try:
        yield Client(engine)
        assert engine.is_serving
        for _ in range(2000):
            if not engine.steps.scheduler.has_work:
                break
            time.sleep(0.005)
        assert engine.steps.pool.num_held == 0
    finally:
        engine.stop()


def test_a_running_request_past_its_timeout_keeps_its_tokens(model_dir: Path) -> None:
    with _serving(model_dir) as client:
        late = client.submit(LONG, timeout_s=0.5)
        assert client.next(late).tokens
        last = client.last(late)
        assert (last.finish_reason, last.failure) == (FinishReason.TIMEOUT, None)
        assert 0 < late.num_outputs < LONG
        assert client.last(client.submit(3)).finish_reason is FinishReason.LENGTH, "its seat is free"


def test_a_waiting_request_past_its_timeout_is_told_so(model_dir: Path) -> None:
    with _serving(model_dir) as client:
        running = client.submit(LONG)
        client.next(running)
        last = client.last(client.submit(3, timeout_s=0.2))
        assert last.finish_reason is FinishReason.TIMEOUT and isinstance(last.failure, DeadlineUnmet)
        assert last.failure.detail["degraded"]["reason"] == "timed_out"
        assert client.last(running).finish_reason is FinishReason.LENGTH


def test_the_default_timeout_is_for_those_that_name_none(model_dir: Path) -> None:
    with _serving(model_dir, seats=2, default_timeout_s=0.3) as client:
        without, with_own = client.submit(LONG), client.submit(LONG, timeout_s=60)
        assert client.last(without).finish_reason is FinishReason.TIMEOUT
        assert client.last(with_own).finish_reason is FinishReason.LENGTH


def test_a_more_urgent_request_displaces_one_that_waits(model_dir: Path) -> None:
    with _serving(model_dir, scheduling_policy="priority", max_waiting=1) as client:
        running = client.submit(LONG)
        client.next(running)
        patient = client.submit(3)
        with pytest.raises(Overloaded) as refused:
            client.submit(3)
        assert refused.value.detail["degraded"]["reason"] == "queue_full"
        urgent = client.submit(3, priority=-1)
        last = client.last(patient)
        assert last.finish_reason is FinishReason.SHED and isinstance(last.failure, Overloaded)
        assert last.failure.detail["degraded"]["reason"] == "displaced"
        assert client.last(urgent).finish_reason is FinishReason.LENGTH
        assert client.last(running).finish_reason is FinishReason.LENGTH


def test_a_deadline_within_the_measured_wait_is_refused_at_once(model_dir: Path) -> None:
    with _serving(model_dir) as client:
        client.last(client.submit(100))
        running = client.submit(LONG)
        client.next(running)
        # The last one stayed half a second at least, and so will whoever has the seat.
        with pytest.raises(DeadlineUnmet) as refused:
            client.submit(3, timeout_s=0.1)
        degraded = refused.value.detail["degraded"]
        assert degraded["estimated_wait_s"] >= 100 * STEP_S and degraded["waiting"] == 0
        client.engine.end(running, FinishReason.ABORT)


def test_a_priority_without_the_policy_is_refused(model_dir: Path) -> None:
    with _serving(model_dir) as client, pytest.raises(BadRequest, match="scheduling_policy"):
        client.submit(3, priority=1)


def test_a_request_that_is_given_up_frees_its_place_before_the_next_step(model_dir: Path) -> None:
    with _serving(model_dir, seats=2) as client:
        requests = [client.submit(LONG) for _ in range(3)]
        client.next(requests[0])
        scheduled: list[set[Request]] = []
        schedule = client.engine.steps.scheduler.schedule

        def watch(drafter: Any, now: float) -> Any:
            plan = schedule(drafter, now)
            scheduled.append({work.request for work in plan.works})
            return plan

        client.engine.steps.scheduler.schedule = watch  # type: ignore[method-assign]
        client.engine.end(requests[0], FinishReason.ABORT)
        ended_at = len(scheduled)
        client.next(requests[2])
        # One step may have been under way; in the next one the waiting request has the place.
        assert all(requests[0] not in step for step in scheduled[ended_at + 1 :])
        assert any(requests[2] in step for step in scheduled[ended_at : ended_at + 2])
        for request in requests[1:]:
            client.engine.end(request, FinishReason.ABORT)


def test_the_configuration_tells_limits_that_move_by_themselves(model_dir: Path) -> None:
    with _serving(model_dir, seats=4, itl_target_s=0.0001) as client:
        limits = client.engine.effective.body()["scheduling"]
        assert limits["prompt_tokens_per_step"] == {"configured": 512, "effective": 512, "adjusted_by": "itl_target_s"}
        running = client.submit(100)
        client.next(running)
        for number in range(20):
            client.last(client.submit(1, length=300 + number))
        body = client.engine.effective.body()
        assert body["knobs"]["max_num_batched_tokens"] == 512
        assert body["scheduling"]["prompt_tokens_per_step"]["effective"] < 512, "no step is as fast as was asked"
        assert body["scheduling"]["scheduling_policy"] == "fcfs"
        client.last(running)


@pytest.mark.parametrize(
    "option",
    [
        {"default_timeout_s": 0},
        {"max_waiting": -1},
        {"max_waiting_tokens": 0},
        {"scheduling_policy": "lifo"},
        {"long_prompt_threshold": -1},
        {"max_long_prefills": 0},
        {"itl_target_s": -1.0},
    ],
)
def test_a_wrong_option_is_named(model_dir: Path, option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(option))):
        EngineOptions(model_dir, **option)
