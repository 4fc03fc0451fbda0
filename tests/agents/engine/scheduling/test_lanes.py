"""The lane for long prompts: what a straggler costs others, and what it gets."""

import pytest

from agents.engine.drafting.drafting import NgramDrafter
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.lanes import take_turns
from agents.engine.scheduling.policy import Policy
from agents.engine.scheduling.request import Request, Status
from agents.engine.scheduling.scheduler import Scheduler
from controlplane.contract.knobs import EngineConfig

LANE = Policy(long_prompt_threshold=50, long_patience_s=5.0)


def _scheduler(policy: Policy = LANE, blocks: int = 500, **knobs: int) -> Scheduler:
    config = EngineConfig(**{"max_num_batched_tokens": 32, **knobs})
    return Scheduler(KvCache(BlockPool(blocks, 4), (CacheGroup((0,)),)), config, policy)


def _add(scheduler: Scheduler, length: int, outputs: int = 3, at: float = 0.0, token: int = 1) -> Request:
    request = Request("r", [token] * length, SamplingParams(outputs), arrived_at=at)
    scheduler.add(request)
    return request


def _step(scheduler: Scheduler, now: float = 0.0) -> dict[Request, int]:
    """Tokens that each request got in a step."""
    works = scheduler.schedule(NgramDrafter(), now).works
    for work in works:
        scheduler.commit(work, [7] if work.samples else [])
    return {work.request: work.count for work in works}


def _steps_to_first_token(policy: Policy) -> tuple[int, int]:
    """A straggler of 2,000 tokens, then a short prompt each third step: the worst of those, and the straggler."""
    scheduler = _scheduler(policy, blocks=2000)
    straggler = _add(scheduler, 2000, outputs=1)
    short: dict[Request, int] = {}
    worst = step = 0
    while straggler.status is not Status.FINISHED:
        if step % 3 == 0:
            short[_add(scheduler, 12, at=float(step), token=step)] = step
        _step(scheduler, float(step))
        step += 1
        for request in [request for request in short if request.num_outputs]:
            worst = max(worst, step - short.pop(request))
    return worst, step


def test_a_straggler_does_not_hold_up_short_prompts() -> None:
    without, alone = _steps_to_first_token(Policy())
    with_lane, beside = _steps_to_first_token(LANE)
    assert with_lane == 1 and without > 50
    assert beside < 3 * alone, "it is slower, but goes on"


def test_alone_it_gets_the_whole_budget_and_beside_others_its_share() -> None:
    scheduler = _scheduler()
    long = _add(scheduler, 300)
    assert _step(scheduler)[long] == 32
    short = _add(scheduler, 6, token=2)
    assert _step(scheduler) == {short: 6, long: 16}
    assert _step(scheduler) == {short: 1, long: 16}


def test_short_prompts_leave_it_an_eighth() -> None:
    scheduler = _scheduler()
    long = _add(scheduler, 300)
    _step(scheduler)
    shorts = [_add(scheduler, 40, token=2 + number) for number in range(3)]
    got = _step(scheduler)
    assert got == {shorts[0]: 28, long: 4}


def test_short_prompts_pass_long_ones_that_wait_for_the_lane() -> None:
    scheduler = _scheduler()
    first, second = _add(scheduler, 300), _add(scheduler, 300, token=2)
    _step(scheduler)
    short = _add(scheduler, 6, token=3, at=100.0)
    _step(scheduler)
    assert (first.status, second.status, short.num_outputs) == (Status.RUNNING, Status.WAITING, 1)


def test_two_long_prompts_share_the_lane_evenly() -> None:
    scheduler = _scheduler(Policy(long_prompt_threshold=50, max_long_prefills=2))
    first, second, third = (_add(scheduler, 300, token=token) for token in (1, 2, 3))
    assert _step(scheduler) == {first: 16, second: 16}
    assert third.status is Status.WAITING


def test_a_long_prompt_waits_for_a_seat_no_longer_than_its_patience() -> None:
    scheduler = _scheduler(max_num_seqs=1)
    _add(scheduler, 6)
    _step(scheduler)
    long = _add(scheduler, 60, at=1.0, token=2)
    passing, later = _add(scheduler, 6, at=5.9, token=3), _add(scheduler, 6, at=6.1, token=4)
    started = []
    for second in range(7, 30):
        for request in _step(scheduler, float(second)):
            if request not in started:
                started.append(request)
    assert started[1:] == [passing, long, later]


def test_its_last_piece_is_a_short_prompts() -> None:
    scheduler = _scheduler()
    long, decoding = _add(scheduler, 100), _add(scheduler, 6, outputs=50, token=2)
    while long.remaining > 50:
        _step(scheduler)
    assert _step(scheduler)[long] > 16, "what is left is no longer than a short prompt, and is served like one"
    assert decoding.status is Status.RUNNING


def _conversation_behind_a_straggler() -> tuple[Scheduler, Request, Request]:
    """A long prompt whose first 200 tokens are cached, queued while another long one is computed."""
    scheduler = _scheduler()
    first = _add(scheduler, 200, outputs=1)
    while first.status is not Status.FINISHED:
        _step(scheduler)
    straggler = _add(scheduler, 300, token=2)
    _step(scheduler)
    conversation = _add(scheduler, 220)
    return scheduler, straggler, conversation


def test_a_long_conversation_whose_start_is_cached_is_short() -> None:
    scheduler, straggler, conversation = _conversation_behind_a_straggler()
    assert not conversation.is_long
    _step(scheduler)
    assert (conversation.status, conversation.cached_tokens) == (Status.RUNNING, 200)
    assert straggler.remaining > 50


def test_one_whose_cached_start_was_evicted_while_it_waited_goes_to_the_lane() -> None:
    scheduler, straggler, conversation = _conversation_behind_a_straggler()
    scheduler.cache.pool.reset_cache()
    _step(scheduler)
    assert (conversation.status, conversation.is_long) == (Status.WAITING, True)
    assert straggler.status is Status.RUNNING


@pytest.mark.parametrize(("count", "places"), [(1, 1), (5, 2), (5, 4), (7, 3), (4, 8)])
def test_decodes_that_do_not_fit_a_step_take_turns(count: int, places: int) -> None:
    decoding = [Request(str(number), [1], SamplingParams(1)) for number in range(count)]
    last = dict.fromkeys(decoding, -1)
    turn, gaps = 0, [0]
    for step in range(60):
        chosen = take_turns(decoding, places, turn)
        assert len(chosen) == min(count, places) and chosen[0] is decoding[0]
        assert chosen == [request for request in decoding if request in chosen], "by rank"
        for request in chosen:
            gaps.append(step - last[request])
            last[request] = step
        turn += places - 1
    most = 1 if count <= places else -(-(count - 1) // (places - 1))
    assert max(gaps) <= most and all(step >= 60 - most for step in last.values())


def test_a_short_prompt_under_way_leaves_the_lane_its_tokens() -> None:
    scheduler = _scheduler()
    long = _add(scheduler, 300)
    _step(scheduler)
    short = _add(scheduler, 49, token=2)
    assert _step(scheduler) == {short: 28, long: 4}
    scheduler.config = EngineConfig(max_num_batched_tokens=16)
    assert _step(scheduler) == {short: 14, long: 2}
