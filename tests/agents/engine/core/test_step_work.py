"""What a step computes and moves, held against counting one by one and against a real engine's tensors."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.core.step_work import WorkSizes, seen_pairs, seen_tokens, work_sizes
from agents.engine.options import BUNDLED, EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from controlplane.contract.knobs import EngineConfig, Quantization

WINDOWS = st.none() | st.integers(1, 40)


@given(st.integers(0, 60), st.integers(1, 60), WINDOWS)
def test_pairs_and_tokens_are_those_that_each_token_sees(start: int, count: int, window: int | None) -> None:
    seen = [set(range(max(0, place + 1 - (window or place + 1)), place + 1)) for place in range(start, start + count)]
    assert seen_pairs(start, count, window) == sum(map(len, seen))
    assert seen_tokens(start, count, window) == len(set().union(*seen))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(0, 3)), min_size=1), WINDOWS)
def test_a_step_is_the_sum_of_its_works_and_reads_its_weights_once(
    works: list[tuple[int, int, int]], window: int | None
) -> None:
    sizes = WorkSizes(1, 10**4, 10**8, 7, 2, {None: 3, window: 2} if window else {None: 5})
    made: list[Any] = [SimpleNamespace(start=a, count=b, drafts=[0] * c) for a, b, c in works]
    found = sizes.of(made, 2)
    alone = [sizes.of([work], 0) for work in made]
    assert found.flops == sum(one.flops for one in alone) + 2 * 10**4
    assert found.read_bytes == sum(one.read_bytes - 7 for one in alone) + 7
    assert found.write_bytes == sum(b + c for _, b, c in works) * 5 * 2


def engine(quantization: Quantization) -> StepEngine:
    config = EngineConfig(quantization=quantization)
    return StepEngine(EngineOptions(BUNDLED, kernels="torch", kv_cache_memory_bytes=2**22, config=config), EventLog())


def test_a_format_of_fewer_bits_reads_fewer_bytes_and_does_as_much() -> None:
    plain, packed = (work_sizes(engine(one).runner.decoder) for one in (Quantization.NONE, Quantization.INT8))
    assert packed.weight_bytes < 0.4 * plain.weight_bytes, "float32 against a byte and its scales"
    assert (packed.token_flops, packed.kv_bytes, packed.layers) == (plain.token_flops, plain.kv_bytes, plain.layers)


def test_the_engine_tells_it_of_each_step_and_of_the_weights_that_run() -> None:
    one = engine(Quantization.NONE)
    sizes = work_sizes(one.runner.decoder)
    one.scheduler.add(Request("r", list(range(1, 21)), SamplingParams(max_tokens=3)))
    while one.scheduler.has_work:
        one.step()
    steps: list[Any] = [event for event in one.log.after(0) if event["kind"] == "step"]
    assert [step["batched_tokens"] for step in steps] == [20, 1, 1]
    whole = [sizes.of([SimpleNamespace(start=0, count=20, drafts=[])], 1)]  # type: ignore[list-item]
    whole += [sizes.of([SimpleNamespace(start=at, count=1, drafts=[])], 1) for at in (20, 21)]  # type: ignore[list-item]
    assert [(s["flops"], s["read_bytes"], s["write_bytes"]) for s in steps] == [
        (w.flops, w.read_bytes, w.write_bytes) for w in whole
    ]
    one.swap_weights(Quantization.INT8)
    one.scheduler.add(Request("s", list(range(1, 21)), SamplingParams(max_tokens=1)))
    one.step()
    assert one.log.after(0)[-1]["read_bytes"] < steps[0]["read_bytes"]


@pytest.mark.parametrize("rows", [0, 3])
def test_rows_of_logits_are_the_heads_work(rows: int) -> None:
    sizes = WorkSizes(0, 5, 0, 0, 1, {None: 1})
    assert sizes.of([], rows).flops == 5 * rows
