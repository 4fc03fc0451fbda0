"""The simulated engine decides as the real one does, loses nobody, and takes steps at once only where that changes
nothing."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.policy import Policy
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import StepPlan
from controlplane.contract.knobs import EngineConfig, parse_config
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.step_terms import StepCost, summed, terms_of
from tuner.twin.simulated_engine import Arrival, EngineShape, SimulatedEngine, Story

MODEL = Path(__file__).resolve().parents[3] / "agents/models/tailwright-py-5m"
COST = StepCost((0.004, 2e-5, 1e-4, 3e-5, 1e-6, 2e-8))
Seen = list[tuple[tuple[str, int, int], ...]]


def arrival(at_s: float, prompt: list[int], outputs: int, seed: int = 0) -> Arrival:
    return Arrival(at_s, lambda: prompt, outputs, seed)


def works_of(plan: StepPlan) -> tuple[tuple[str, int, int], ...]:
    return tuple((work.request.request_id, work.start, work.count) for work in plan.works)


@st.composite
def traffic(draw: st.DrawFn) -> list[Arrival]:
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.013, 0.2, 3.0]), min_size=1, max_size=14))
    found = []
    for number, at_s in enumerate(accumulate(gaps)):
        shared = draw(st.sampled_from([0, 16, 40]))
        own = draw(st.integers(1, 60))
        prompt = [*range(shared), *(1000 * (number + 1) + place for place in range(own))]
        found.append(arrival(at_s, prompt, draw(st.integers(1, 90)), seed=number))
    return found


knobs = st.builds(
    lambda tokens, chunk, seqs: parse_config(
        {"max_num_batched_tokens": tokens, "prefill_chunk_size": chunk, "max_num_seqs": seqs}
    ),
    st.sampled_from([4, 32, 64, 512]),
    st.sampled_from([0, 16, 48]),
    st.sampled_from([1, 3, 8, 32]),
)


@settings(max_examples=25, deadline=None)
@given(traffic(), knobs, st.sampled_from([13, 24, 400]), st.booleans())
def test_steps_taken_at_once_change_nothing(
    arrivals: list[Arrival], config: EngineConfig, blocks: int, prefix_caching: bool
) -> None:
    shape = EngineShape(blocks, prefix_caching=prefix_caching)
    jumping, stepping = (
        SimulatedEngine(shape, config, COST),
        SimulatedEngine(shape, config, COST, watcher=lambda *_: None),
    )
    one, other = jumping.run(arrivals), stepping.run(arrivals)
    assert jumping.steps == stepping.steps
    assert jumping.busy_s == pytest.approx(stepping.busy_s)
    assert [replace(story, arrived_s=0.0) for story in map(rounded, one)] == [
        replace(story, arrived_s=0.0) for story in map(rounded, other)
    ]
    assert sum(jumping.gaps.weights) == sum(stepping.gaps.weights)
    total = sum(map(float.__mul__, stepping.gaps.seconds, map(float, stepping.gaps.weights)))
    assert sum(map(float.__mul__, jumping.gaps.seconds, map(float, jumping.gaps.weights))) == pytest.approx(total)


def rounded(story: Story) -> Story:
    def near(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds, 7)

    return replace(
        story,
        scheduled_s=near(story.scheduled_s),
        first_token_s=near(story.first_token_s),
        ended_s=near(story.ended_s),
    )


@settings(max_examples=25, deadline=None)
@given(traffic(), knobs, st.sampled_from([13, 24, 400]), st.integers(0, 3))
def test_every_request_that_fits_ends_with_all_its_tokens(
    arrivals: list[Arrival], config: EngineConfig, blocks: int, drafts: int
) -> None:
    config = config.model_copy(update={"num_speculative_tokens": min(drafts, config.max_num_batched_tokens - 1)})
    computed = {"steps": 0, "sampled": 0}

    def count(plan: StepPlan, _: float, __: float) -> None:
        computed["steps"] += 1
        assert plan.batched_tokens <= config.max_num_batched_tokens

    engine = SimulatedEngine(EngineShape(blocks), config, COST, drafts=Drafts(0.7, (0.8, 0.5)), watcher=count)
    stories = engine.run(arrivals)
    for one, story in zip(arrivals, stories, strict=True):
        fits = -(-(len(one.prompt()) + one.outputs) // 16) <= blocks
        assert story.refused is not fits
        if fits:
            assert story.outputs == one.outputs
            assert story.scheduled_s is not None and story.first_token_s is not None and story.ended_s is not None
            assert one.at_s <= story.scheduled_s < story.first_token_s <= story.ended_s
    assert computed["steps"] == engine.steps
    assert not engine.scheduler.has_work and engine.scheduler.cache.stats().held_blocks == 0


def test_what_would_wait_too_long_a_queue_is_refused() -> None:
    shape = EngineShape(400, policy=Policy(max_waiting=2))
    engine = SimulatedEngine(shape, parse_config({"max_num_seqs": 1}), COST)
    stories = engine.run([arrival(0.0, [number] * 8, 5) for number in range(5)])
    assert [story.refused for story in stories] == [False, False, True, True, True]


class Recorded:
    """A real engine's steps over the bundled model: what each computed, and how long it took."""

    def __init__(self, config: EngineConfig, kv_bytes: int) -> None:
        options = EngineOptions(model=MODEL, config=config, kv_cache_memory_bytes=kv_bytes, kernels="torch")
        self.engine = StepEngine(options, EventLog())
        self.works: Seen = []
        self.started: list[float] = []
        self.seconds: list[float] = []

    def serve(self, arrivals: list[Arrival]) -> dict[str, int]:
        """By a clock of its own, which a step moves by what its terms cost: no wait, and the same on any machine."""
        scheduler, now = self.engine.scheduler, 0.0
        schedule = scheduler.schedule
        left, ended = list(enumerate(arrivals)), {}

        def watched(drafter: object, started: float) -> StepPlan:
            plan = schedule(drafter, now)  # type: ignore[arg-type]
            self.works.append(works_of(plan))
            self.started.append(now)
            self.seconds.append(COST.seconds(terms_of(plan)))
            return plan

        scheduler.schedule = watched  # type: ignore[method-assign]
        with torch.inference_mode():
            while left or scheduler.has_work:
                if not scheduler.has_work:
                    now = max(now, left[0][1].at_s)
                while left and left[0][1].at_s <= now:
                    number, one = left.pop(0)
                    params = SamplingParams(one.outputs)
                    scheduler.add(Request(str(number), one.prompt(), params, arrived_at=one.at_s))
                for output in self.engine.step():
                    if output.finish_reason:
                        ended[output.request.request_id] = output.request.num_outputs
                now += self.seconds[-1]
        return ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knobs", "blocks"),
    [
        ({"max_num_batched_tokens": 64}, 1000),
        ({"max_num_batched_tokens": 48, "prefill_chunk_size": 32, "max_num_seqs": 4}, 1000),
        ({"max_num_batched_tokens": 96, "max_num_seqs": 16}, 14),
    ],
    ids=["budget", "chunks and seats", "few blocks, with preemption"],
)
def test_it_decides_step_by_step_as_the_real_engine(knobs: dict[str, int], blocks: int) -> None:
    """The same arrivals, the same seconds a step: then the same work in each step, at the same time."""
    config = parse_config(knobs)
    arrivals = [
        arrival(
            0.02 * number, [5 + (place * 7 + number // 3) % 400 for place in range(20 + 13 * number % 70)], 30 + number
        )
        for number in range(16)
    ]
    probe = Recorded(config, 1 << 20)
    block_bytes = (1 << 20) // probe.engine.pool.num_blocks
    real = Recorded(config, blocks * block_bytes)
    ended = real.serve(arrivals)
    works: Seen = []
    started: list[float] = []

    preempted = 0

    def watch(plan: StepPlan, now: float, _: float) -> None:
        nonlocal preempted
        preempted += plan.preemptions
        works.append(works_of(plan))
        started.append(now)

    shape = EngineShape(
        real.engine.pool.num_blocks, real.engine.pool.block_size, real.engine.model_config.cache_groups()
    )
    twin = SimulatedEngine(shape, config, COST, watcher=watch)
    stories = twin.run(arrivals)
    assert works == real.works
    assert (preempted > 0) is (blocks < 100)
    assert started == pytest.approx(real.started)
    assert {str(number): story.outputs for number, story in enumerate(stories)} == ended


def test_a_sum_of_steps_costs_what_the_sum_of_their_terms_costs() -> None:
    several = []
    engine = SimulatedEngine(
        EngineShape(100), parse_config({}), COST, watcher=lambda plan, *_: several.append(terms_of(plan))
    )
    engine.run([arrival(0.0, [1] * 30, 9), arrival(0.01, [2] * 300, 4)])
    assert COST.seconds(summed(several)) == pytest.approx(engine.busy_s)
    assert summed([]) == (0.0,) * 6
    assert COST.scaled(2.0).seconds(several[0]) == pytest.approx(2 * COST.seconds(several[0]))
