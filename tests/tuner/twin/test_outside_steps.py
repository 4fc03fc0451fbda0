"""What requests spend outside of steps: what they wait for the one in progress is left out, where it is told so."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from random import Random

from controlplane.contract.bodies.workload import RequestRecord
from tuner.twin.outside_steps import around

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
STEP_S, TOKENS = 0.04, 5
OUTSIDE_S = 0.003


def record(arrived_s: float, scheduled_s: float, node: str = "gpu-1") -> RequestRecord:
    """Of a prompt in one step and four decodes, told as vLLM tells it."""
    before, decode = scheduled_s - arrived_s, STEP_S * (TOKENS - 1)
    ttft = before + STEP_S + OUTSIDE_S
    return RequestRecord(
        node=node,
        pool="chat",
        model="m",
        revision=1,
        request_id=f"{node}-{arrived_s}",
        arrival=START + timedelta(seconds=arrived_s),
        prompt_tokens=100,
        cached_tokens=0,
        output_tokens=TOKENS,
        finish_reason="length",
        parts={"tokenize": before, "queue": 0.0, "prefill": STEP_S, "decode": decode, "ttft": ttft}
        | {"e2e": ttft + decode + OUTSIDE_S},
    )


def served(pauses_s: Iterator[float], requests: int = 60, node: str = "gpu-1") -> list[RequestRecord]:
    """Taken in when OUTSIDE_S after they came the step in progress ends, a step beginning at once when one is due."""
    random, found, at_s, busy_until_s, step_s = Random(3), list[RequestRecord](), 0.0, 0.0, 0.0
    for _ in range(requests):
        at_s += next(pauses_s) * random.uniform(0.5, 1.5)
        ready_s = at_s + OUTSIDE_S
        if ready_s >= busy_until_s:
            step_s = ready_s
        while step_s < ready_s:
            step_s += STEP_S
        found.append(record(at_s, step_s, node))
        busy_until_s = max(busy_until_s, step_s + STEP_S * TOKENS)
    return found


def test_only_the_step_in_progress_is_left_out() -> None:
    """Half of the requests find somebody computed and wait for half a step or so."""
    records = served(cycle([0.4, 0.06]))
    told = around(records, taken_between_steps=True)
    assert len(told.first_s) >= 25
    assert min(told.first_s) > 2 * OUTSIDE_S - 1e-4 and max(told.first_s) < 2 * OUTSIDE_S + 1e-4
    assert min(told.whole_s) > 3 * OUTSIDE_S - 1e-4 and max(told.whole_s) < 3 * OUTSIDE_S + 1e-4


def test_where_queues_are_told_by_themselves_all_are_taken() -> None:
    records = served(cycle([0.4, 0.06]))
    assert len(around(records, taken_between_steps=False).first_s) == len(records)


def test_those_of_one_step_do_not_wait_for_each_other() -> None:
    records = [one for at_s in range(20) for one in (record(at_s, at_s + 0.01), record(at_s + 0.001, at_s + 0.01))]
    assert len(around(records, taken_between_steps=True).first_s) == 40


def test_a_node_waits_for_its_own_steps_alone() -> None:
    records = [record(at_s + late_s, at_s + late_s + 0.01, node) for at_s in range(20) for node, late_s in NODES]
    assert len(around(records, taken_between_steps=True).first_s) == 40


NODES = (("gpu-1", 0.0), ("gpu-2", 0.05))


def test_of_a_pool_that_is_never_idle_those_are_taken_that_spent_least() -> None:
    told = around(served(cycle([0.06])), taken_between_steps=True)
    assert len(told.first_s) == 10 and max(told.first_s) < 2 * OUTSIDE_S + STEP_S / 2
