"""Rows that the scheduler does not see change nothing of what it decides: each step beside one that it sees all of."""

from dataclasses import dataclass
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.step_plan import StepPlan
from controlplane.contract.knobs import EngineConfig, parse_config
from controlplane.contract.step_limits import StepLimit
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.simulated_engine import Arrival, EngineShape, SimulatedEngine

COST = StepCost((0.004, 2e-5, 1e-4, 3e-5, 1e-6, 2e-8))


@dataclass(frozen=True)
class Planned:
    """A step as it was planned: works as (request, start, count), free blocks once they were given out."""

    works: list[tuple[str, int, int]]
    rows: int
    limit: StepLimit
    free_blocks: int


class Watched:
    """An engine and the steps that its scheduler planned, by their numbers."""

    def __init__(self, shape: EngineShape, config: EngineConfig, *, steady: bool) -> None:
        self.engine = SimulatedEngine(shape, config, COST, watcher=None if steady else lambda *_: None)
        self.planned: dict[int, Planned] = {}
        self.gathered = 0
        """Steps for which the scheduler had all rows back."""
        scheduler = self.engine.scheduler
        schedule = scheduler.schedule

        def watched(drafter: Drafter, now: float) -> StepPlan:
            plan = schedule(drafter, now)
            rows = self.engine.steady_rows
            works = [(work.request.request_id, work.start, work.count) for work in plan.works]
            free = scheduler.cache.pool.num_free
            self.planned[self.engine.steps] = Planned(works, len(works) + rows, plan.limit, free)
            self.gathered += not rows
            return plan

        scheduler.schedule = watched  # type: ignore[method-assign]


@st.composite
def traffic(draw: st.DrawFn) -> list[Arrival]:
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.004, 0.05, 1.0]), min_size=4, max_size=30))
    found = []
    for number, at_s in enumerate(accumulate(gaps)):
        shared, own = draw(st.sampled_from([0, 0, 16, 48, 100])), draw(st.sampled_from([1, 2, 25, 60]))
        prompt = [*range(shared), *([1000 + number] * own)]
        found.append(Arrival(at_s, lambda prompt=prompt: prompt, draw(st.integers(1, 70)), number))  # type: ignore[misc]
    return found


knobs = st.builds(
    lambda tokens, chunk, seqs: parse_config(
        {"max_num_batched_tokens": tokens, "prefill_chunk_size": chunk, "max_num_seqs": seqs}
    ),
    st.sampled_from([6, 32, 64, 512]),
    st.sampled_from([0, 16, 48]),
    st.sampled_from([2, 5, 12, 32]),
)


@settings(max_examples=60, deadline=None)
@given(traffic(), knobs, st.sampled_from([16, 30, 60, 600]), st.booleans())
def test_every_step_is_planned_as_if_there_were_none(
    arrivals: list[Arrival], config: EngineConfig, blocks: int, prefix_caching: bool
) -> None:
    plans_alike(arrivals, config, EngineShape(blocks, prefix_caching=prefix_caching))


def test_whoever_did_not_fit_is_let_in_once_the_start_of_his_prompt_is_there() -> None:
    """The third finds too few blocks; a step later the second has computed what both begin with."""
    prompts = [[1000] * 30, list(range(101)), list(range(101))]
    arrivals = [
        Arrival(at_s, lambda prompt=prompt: prompt, 60)  # type: ignore[misc]
        for at_s, prompt in zip((0.0, 0.02, 0.02), prompts, strict=True)
    ]
    plans_alike(arrivals, parse_config({"max_num_seqs": 8}), EngineShape(16))


def test_more_rows_than_a_step_has_tokens_for_take_turns() -> None:
    arrivals = [Arrival(0.0, lambda number=number: [number] * 2, 40) for number in range(12)]  # type: ignore[misc]
    plans_alike(arrivals, parse_config({"max_num_batched_tokens": 6, "max_num_seqs": 12}), EngineShape(600))


def plans_alike(arrivals: list[Arrival], config: EngineConfig, shape: EngineShape) -> None:
    one, other = Watched(shape, config, steady=True), Watched(shape, config, steady=False)
    one.engine.run(arrivals)
    other.engine.run(arrivals)
    assert one.engine.steps == other.engine.steps == len(other.planned)
    assert one.engine.scheduler.cache.stats() == other.engine.scheduler.cache.stats()
    for step, whole in other.planned.items():
        part = one.planned.get(step)
        if part is None:  # It was taken with others at once.
            assert all(count == 1 for _, _, count in whole.works)
            continue
        seen = set(part.works)
        assert [work for work in whole.works if work in seen] == part.works
        assert all(count == 1 for _, _, count in set(whole.works) - seen)
        assert (part.rows, part.limit, part.free_blocks) == (len(whole.works), whole.limit, whole.free_blocks)


def test_the_scheduler_sees_a_small_part_of_the_rows() -> None:
    """Else the test above would compare an engine with itself."""
    arrivals = [Arrival(0.03 * number, lambda number=number: [number] * 50, 200) for number in range(40)]  # type: ignore[misc]
    watched = Watched(EngineShape(600), parse_config({"max_num_batched_tokens": 64, "max_num_seqs": 32}), steady=True)
    watched.engine.run(arrivals)
    assert len(watched.planned) < watched.engine.steps
    assert sum(len(one.works) for one in watched.planned.values()) < 40 * 200 / 4
    assert watched.gathered < len(watched.planned) / 10
