"""What a recorded engine told becomes what the service would hand to the twin."""

from datetime import timedelta

import pytest

from benchmarks.twin_measures.recorded_engine import RequestTold, Served, StepTold
from benchmarks.twin_measures.recorded_task import START, task_of
from controlplane.contract.knobs import EngineConfig
from tests.tuner.served_pool import traffic

REQUEST = RequestTold(0.1, 0.3, 0.6, 1.6, prompt_tokens=40, cached_tokens=16, output_tokens=11)
STEPS = [
    StepTold(0.4, 0.1, 0, 0, 0.1, deliveries=3),
    StepTold(0.49, 0.09, 2, 1, 0.2, 2, (1, 1), (1, 0)),
    StepTold(1.2, 0.2, 2, 2, 0.3, 1, (2,), (2,)),
]


def test_a_requests_times_become_its_waterfall_and_steps_their_windows() -> None:
    served = Served(told_steps=STEPS, told_requests=[REQUEST])
    task = task_of(served, traffic(seed=1, requests=1, per_s=1.0), EngineConfig(), width_s=0.5)
    (record,) = task.records
    assert record.arrival == START + timedelta(seconds=0.1) and task.workload.end == START + timedelta(seconds=1.6)
    assert record.parts == pytest.approx(
        {"queue": 0.2, "prefill": 0.3, "decode": 1.0, "ttft": 0.5, "e2e": 1.5, "tpot": 0.1}
    )
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (40, 16, 11)
    first, second = task.windows
    assert (first.start_s, first.steps, first.drafted, first.accepted, first.kv_usage) == (
        START.timestamp(), 2, 2, 1, 0.2,
    )  # fmt: skip
    assert first.seconds == pytest.approx(0.19)
    assert (first.deliveries, second.deliveries) == (5, 1)
    assert (task.drafted_at, task.accepted_at) == ([3.0, 1.0], [3.0, 0.0])
    assert (second.start_s, second.steps) == (START.timestamp() + 1.0, 1)
