"""Exactly one limit a step, of the six, and the one whose lifting would have computed more."""

from hypothesis import given
from hypothesis import strategies as st

from agents.engine.drafting.drafting import NgramDrafter
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.step_limit import limit_of_plan, limit_of_step
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.step_limits import StepLimit

ORDER = ("blocks", "budget", "seats", "chunk")
LIMITS = (StepLimit.KV_MEMORY, StepLimit.TOKEN_BUDGET, StepLimit.MAX_NUM_SEQS, StepLimit.CHUNK)


@given(st.fixed_dictionaries(dict.fromkeys(ORDER, st.booleans())))
def test_the_first_that_was_met_counts(met: dict[str, bool]) -> None:
    found = limit_of_plan(**met)
    if found is StepLimit.NO_WORK:
        assert not any(met.values())
    else:
        place = LIMITS.index(found)
        assert met[ORDER[place]] and not any(met[name] for name in ORDER[:place])


@given(st.sampled_from((*LIMITS, StepLimit.NO_WORK)), st.integers(0, 100))
def test_rejected_drafts_count_only_where_nothing_else_bound(planned: StepLimit, rejected: int) -> None:
    found = limit_of_step(planned, rejected)
    assert (found is StepLimit.DRAFTS) == (planned is StepLimit.NO_WORK and rejected > 0)
    assert found in (planned, StepLimit.DRAFTS)


def _limits(lengths: list[int], steps: int, blocks: int = 20, **knobs: int) -> list[StepLimit]:
    """What binds the first steps of requests that came together, each with eight tokens to give. Blocks hold four."""
    scheduler = Scheduler(KvCache(BlockPool(blocks, 4), (CacheGroup((0,)),)), EngineConfig(**knobs))
    for number, length in enumerate(lengths):
        scheduler.add(Request(str(number), [number + 1] * length, SamplingParams(8)))
    found = []
    for step in range(steps):
        plan = scheduler.schedule(NgramDrafter(), float(step))
        found.append(plan.limit)
        for work in plan.works:
            scheduler.commit(work, [2] if work.samples else [])
    return found


def test_what_all_fits_is_bound_by_nothing() -> None:
    assert _limits([8, 8], 3) == [StepLimit.NO_WORK] * 3


def test_a_prompt_larger_than_the_budget() -> None:
    assert _limits([20], 4, max_num_batched_tokens=8) == [StepLimit.TOKEN_BUDGET] * 2 + [StepLimit.NO_WORK] * 2


def test_somebody_who_waits_for_tokens_of_the_budget() -> None:
    assert _limits([8, 8], 3, max_num_batched_tokens=8)[:2] == [StepLimit.TOKEN_BUDGET] * 2


def test_more_decodes_than_the_budget() -> None:
    assert _limits([1, 1, 1], 4, max_num_batched_tokens=2)[-1] is StepLimit.TOKEN_BUDGET


def test_somebody_who_waits_for_a_seat() -> None:
    assert _limits([8, 8], 3, max_num_seqs=1) == [StepLimit.MAX_NUM_SEQS] * 3


def test_a_prompt_cut_to_the_chunk() -> None:
    assert _limits([20], 4, prefill_chunk_size=8) == [StepLimit.CHUNK] * 2 + [StepLimit.NO_WORK] * 2
    assert _limits([20], 1, prefill_chunk_size=8, max_num_batched_tokens=8) == [StepLimit.TOKEN_BUDGET]


def test_no_block_for_the_next_request() -> None:
    assert _limits([9, 9], 2, blocks=5) == [StepLimit.KV_MEMORY] * 2


def test_a_request_that_is_set_back_for_want_of_blocks() -> None:
    assert StepLimit.KV_MEMORY in _limits([8, 8], 9, blocks=5)


def test_a_drained_scheduler_is_not_short_of_seats() -> None:
    scheduler = Scheduler(KvCache(BlockPool(20, 4), (CacheGroup((0,)),)), EngineConfig(max_num_seqs=1))
    for number in (1, 2):
        scheduler.add(Request(str(number), [number] * 4, SamplingParams(8)))
    assert scheduler.schedule(NgramDrafter(), 0.0).limit is StepLimit.MAX_NUM_SEQS
    scheduler.admitting = False
    assert scheduler.schedule(NgramDrafter(), 1.0).limit is StepLimit.NO_WORK
