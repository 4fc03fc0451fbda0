"""A request that nobody wants any more is gone before the engine's next step."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.engine.core.engine import Engine
from agents.engine.core.step import StepEngine, TokenOutput
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import FinishReason, Request
from tests.agents.engine.serving import eventually


@pytest.mark.parametrize("siblings", [0, 2])
def test_ending_a_request_leaves_at_most_the_step_in_progress(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch, siblings: int
) -> None:
    step = StepEngine.step
    monkeypatch.setattr(StepEngine, "step", lambda self: (time.sleep(0.005), step(self))[1])
    engine = Engine(EngineOptions(model_dir))
    got: list[TokenOutput] = []

    def receive(outputs: Sequence[TokenOutput]) -> None:
        got.extend(outputs)

    engine.start()
    try:
        requests = [Request(str(place), [1, 2, 3], SamplingParams(400)) for place in range(siblings + 1)]
        engine.submit(requests[0], receive, siblings=requests[1:])
        if siblings:  # While the others may still be held back.
            eventually(lambda: engine._receivers)
        else:
            eventually(lambda: len(got) > 3)
        before = engine.log.newest
        for request in requests:
            engine.end(request, FinishReason.ABORT)
        eventually(lambda: not engine._receivers and engine.steps.pool.num_held == 0)
        eventually(lambda: not engine.steps.scheduler.has_work)  # No step comes after that.
        after = [event for event in engine.log.after(before, 10**6) if event["kind"] == "step"]
        assert len(after) <= 1
        assert all(output.finish_reason is None for output in got), "nobody listens to an abandoned one"
        assert all(request.finish_reason is FinishReason.ABORT for request in requests)
        assert not len(engine._siblings) and not len(engine.steps.scheduler.waiting)
    finally:
        engine.stop()
