"""The scheduler against a made-up model: budgets hold, blocks are nobody else's, everybody gets served in order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.drafting.drafting import NgramDrafter
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.admission import Ended
from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.dynamic_limits import PrefillLimit
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.policy import Policy, SchedulingPolicy
from agents.engine.scheduling.request import FinishReason, Request, Status
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.step_plan import StepPlan, Work
from controlplane.contract.errors import DeadlineUnmet
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.step_limits import StepLimit

SIZE = 4
GROUPS = (CacheGroup((0,)),)
WINDOWED = (CacheGroup((0,)), CacheGroup((1,), 6))


class FixedDrafter:
    """Always drafts as much as it may."""

    def reserve(self, request: Request, limit: int) -> int:
        return limit

    def propose(self, works: Sequence[Work], spare: int = 0) -> int:
        for work in works:
            work.drafts = [1] * work.draft_count
        return 0

    def commit(self, work: Work, accepted: int) -> None:
        pass


configs = st.builds(
    EngineConfig,
    max_num_batched_tokens=st.integers(1, 40),
    prefill_chunk_size=st.integers(0, 9),
    max_num_seqs=st.integers(1, 6),
    num_speculative_tokens=st.integers(0, 4),
)
policies = st.builds(
    Policy,
    scheduling_policy=st.sampled_from(SchedulingPolicy),
    priority_aging_s=st.sampled_from([0.5, 3.0, 20.0]),
    long_prompt_threshold=st.sampled_from([0, 5, 12]),
    max_long_prefills=st.integers(1, 2),
    long_prefill_share=st.sampled_from([0.1, 0.5, 1.0]),
    long_patience_s=st.sampled_from([0.0, 4.0, 30.0]),
)


@dataclass(frozen=True)
class Asked:
    """A request that will come. Steps take a second; gives_up_after: seconds until its client goes away."""

    arrives_at: int
    length: int
    outputs: int
    kind: int
    priority: int
    timeout_s: float | None
    gives_up_after: int | None


requests = st.lists(
    st.builds(
        Asked,
        arrives_at=st.integers(0, 18),
        length=st.integers(1, 20),
        outputs=st.integers(1, 12),
        kind=st.integers(1, 3),
        priority=st.integers(-2, 2),
        timeout_s=st.none() | st.integers(1, 60).map(float),
        gives_up_after=st.none() | st.integers(0, 30),
    ),
    min_size=1,
    max_size=12,
)
patient = requests.map(lambda asked: [replace(one, timeout_s=None, gives_up_after=None) for one in asked])


def _held(request: Request) -> list[int]:
    return [block for table in request.tables for block in table if block != NULL_BLOCK]


def _check_blocks(scheduler: Scheduler) -> None:
    """No leak, no foreign block: held blocks are exactly those of running requests; a shared one has one content."""
    running = scheduler.running
    assert scheduler.cache.pool.num_held == len({block for request in running for block in _held(request)})
    prefix_of: dict[int, tuple[int, ...]] = {}
    for request in running:
        assert len(set(_held(request))) == len(_held(request))
        assert all(len(table) * SIZE >= request.num_computed for table in request.tables)
        for table in request.tables:
            for index, block in enumerate(table[: request.num_computed // SIZE]):
                if block != NULL_BLOCK:
                    prefix = tuple(request.tokens[: (index + 1) * SIZE])
                    assert prefix_of.setdefault(block, prefix) == prefix
    assert not any(_held(request) for request in scheduler.waiting)


class Run:
    """Serves requests to their end, a second a step, and checks every step."""

    def __init__(self, scheduler: Scheduler, asked: list[Asked], draw: Random) -> None:
        self.scheduler, self.draw = scheduler, draw
        self.asked = {
            Request(
                str(number),
                [one.kind] * one.length,
                SamplingParams(one.outputs),
                priority=one.priority,
                arrived_at=float(one.arrives_at),
                deadline=None if one.timeout_s is None else one.arrives_at + one.timeout_s,
            ): one
            for number, one in enumerate(sorted(asked, key=lambda one: one.arrives_at))
        }
        self.ended: list[Ended] = []
        self.second = 0

    def go(self, changes: list[tuple[int, EngineConfig]] = []) -> None:  # noqa: B006
        unborn = list(self.asked)
        while unborn or self.scheduler.has_work:
            for at, config in changes:
                if at == self.second:
                    self.scheduler.config = config
            while unborn and self.asked[unborn[0]].arrives_at <= self.second:
                self.ended += self.scheduler.add(unborn.pop(0))
            self._give_up()
            self._step()
            self.second += 1
            assert self.second < 6000, "somebody starves"
        assert self.scheduler.cache.pool.num_held == 0
        assert all(request.status is Status.FINISHED for request in self.asked)
        assert not len(self.scheduler.waiting) and not self.scheduler.waiting.tokens

    def _give_up(self) -> None:
        for request, one in self.asked.items():
            if one.gives_up_after is not None and one.arrives_at + one.gives_up_after == self.second and request.order:
                self.scheduler.finish(request, FinishReason.ABORT)
                assert not _held(request), "its blocks are free before the next step"

    def _step(self) -> None:
        scheduler, now = self.scheduler, float(self.second)
        expired = scheduler.expire(now)
        self.ended += expired
        for request in self.asked:
            late = request.deadline is not None and request.deadline <= now
            assert not (late and request in [*scheduler.running, *scheduler.waiting]), "late ones are gone"
        ran = list(scheduler.running)
        drafter = FixedDrafter()
        plan = scheduler.schedule(drafter, now)
        drafter.propose(plan.works)
        self._check_plan(plan, ran)
        scheduler.observe(plan, 1.0)
        for work in plan.works:
            assert work.request.status is Status.RUNNING
            end = work.start + work.count + len(work.drafts)
            assert all(len(table) * SIZE >= end for table in work.request.tables)
            outcome = (
                [self.draw.randint(1, 3) for _ in range(self.draw.randint(0, len(work.drafts)) + 1)]
                if work.samples
                else []
            )
            scheduler.commit(work, outcome)
        _check_blocks(scheduler)

    def _check_plan(self, plan: StepPlan, ran: list[Request]) -> None:
        scheduler = self.scheduler
        rows = sum(work.count + len(work.drafts) for work in plan.works)
        assert rows == plan.batched_tokens <= scheduler.config.max_num_batched_tokens
        assert len(scheduler.running) <= scheduler.config.max_num_seqs
        assert len({work.request for work in plan.works}) == len(plan.works)
        long = [request for request in scheduler.running if scheduler.policy.is_long(request.remaining)]
        assert len(long) <= scheduler.policy.max_long_prefills
        assert scheduler.running == sorted(scheduler.running, key=lambda request: request.rank)
        _check_blocks(scheduler)
        self._check_limit(plan, lane_is_full=len(long) >= scheduler.policy.max_long_prefills)
        planned = {work.request for work in plan.works}
        if scheduler.running:
            assert scheduler.running[0] in planned, "the foremost running request advances in each step"
        lane_is_full = len(long) >= scheduler.policy.max_long_prefills
        for started in set(scheduler.running) - set(ran):
            for passed in set(scheduler.waiting) - set(ran):
                # Nobody is passed but by a smaller rank, or in the lane by a short one.
                in_lane = passed.is_long and not started.is_long and lane_is_full
                assert started.rank < passed.rank or in_lane

    def _check_limit(self, plan: StepPlan, *, lane_is_full: bool) -> None:
        """What a plan says bound it is so; and where it says that nothing did, there was nothing more to compute."""
        scheduler, config = self.scheduler, self.scheduler.config
        cut = [work for work in plan.works if not work.samples]
        if plan.limit is StepLimit.NO_WORK:
            assert not plan.preemptions and not cut
            assert {work.request for work in plan.works} == set(scheduler.running)
            assert all(request.is_long and lane_is_full for request in scheduler.waiting)
        elif plan.limit is StepLimit.MAX_NUM_SEQS:
            assert len(scheduler.running) == config.max_num_seqs and len(scheduler.waiting)
        elif plan.limit is StepLimit.CHUNK:
            assert config.prefill_chunk_size in [work.count for work in cut]
            assert plan.batched_tokens < plan.budget
        elif plan.limit is StepLimit.TOKEN_BUDGET:
            done = {work.request for work in plan.works if work.samples}
            assert len(scheduler.waiting) or set(scheduler.running) - done
        else:
            assert plan.limit is StepLimit.KV_MEMORY
            assert plan.preemptions or len(scheduler.waiting) or cut


def _new(config: EngineConfig, policy: Policy, num_blocks: int, groups: tuple[CacheGroup, ...] = GROUPS) -> Scheduler:
    return Scheduler(KvCache(BlockPool(num_blocks * len(groups), SIZE), groups), config, policy)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    configs,
    policies,
    requests,
    st.integers(8, 14),
    st.sampled_from([GROUPS, WINDOWED]),
    st.lists(st.tuples(st.integers(0, 40), configs), max_size=2),
    st.randoms(use_true_random=False),
)
def test_everything_ends_within_the_limits(
    config: EngineConfig,
    policy: Policy,
    asked: list[Asked],
    num_blocks: int,
    groups: tuple[CacheGroup, ...],
    changes: list[tuple[int, EngineConfig]],
    draw: Random,
) -> None:
    run = Run(_new(config, policy, num_blocks, groups), asked, draw)
    run.go(changes)
    for request in run.asked:
        if request.finish_reason is FinishReason.LENGTH:
            assert request.num_outputs == request.params.max_tokens
        elif request.finish_reason is FinishReason.TIMEOUT:
            (told,) = [one for one in run.ended if one.request is request]
            assert isinstance(told.failure, DeadlineUnmet) == (request.num_outputs == 0)
        else:
            assert request.finish_reason is FinishReason.ABORT


@settings(max_examples=100, deadline=None, derandomize=True)
@given(configs, requests, st.integers(8, 14), st.randoms(use_true_random=False))
def test_first_come_is_first_served(config: EngineConfig, asked: list[Asked], num_blocks: int, draw: Random) -> None:
    run = Run(_new(config, Policy(), num_blocks), asked, draw)
    run.go()
    started = [request for request in run.asked if request.scheduled_at is not None]
    assert [s.scheduled_at for s in started] == sorted(s.scheduled_at or 0.0 for s in started)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(configs, patient, policies, st.integers(8, 14), st.randoms(use_true_random=False))
def test_nobody_waits_for_more_than_the_work_before_it(
    config: EngineConfig, asked: list[Asked], policy: Policy, num_blocks: int, draw: Random
) -> None:
    """The bound on starvation. A request ends at most so many steps after it came as there are tokens in those with a
    smaller rank, those that were there before it, and itself; twice, because what is preempted is computed again."""
    run = Run(_new(config, policy, num_blocks), asked, draw)
    ends: dict[Request, int] = {}
    finish = run.scheduler.finish

    def note(request: Request, reason: FinishReason) -> None:
        ends.setdefault(request, run.second)
        finish(request, reason)

    run.scheduler.finish = note  # type: ignore[method-assign]
    run.go()
    for request in run.asked:
        before = [other for other in run.asked if other.rank <= request.rank or other.order < request.order]
        longs = [other for other in run.asked if policy.is_long(len(other.tokens))] if policy.is_long(1000) else []
        work = sum(other.most_tokens for other in {*before, *longs})
        assert ends[request] - request.arrived_at <= 2 * work


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 24),
    st.integers(1, 4),
    st.booleans(),
    st.integers(1, 18),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_an_endless_stream_of_more_urgent_requests_does_not_starve_one(
    budget: int, seats: int, lane: bool, length: int, priority: int, draw: Random
) -> None:
    """More urgent, short requests come faster than they are served, for ever. One of low priority and any length
    overtakes those that come later than its aged priority and its patience tell, and then waits for nobody new."""
    policy = Policy(
        scheduling_policy=SchedulingPolicy.PRIORITY,
        priority_aging_s=5.0,
        long_prompt_threshold=6 if lane else 0,
        long_patience_s=8.0,
        max_waiting=None,
    )
    scheduler = _new(EngineConfig(max_num_batched_tokens=budget, max_num_seqs=seats), policy, 20)
    one = Request("low", [1] * length, SamplingParams(4), priority=priority, arrived_at=0.0)
    scheduler.add(one)
    second, ahead = 0, 0
    while one.status is not Status.FINISHED:
        for _ in range(2):
            newcomer = Request("urgent", [2] * 4, SamplingParams(6), priority=-1, arrived_at=float(second))
            scheduler.add(newcomer)
            ahead += newcomer.most_tokens if newcomer.rank < one.rank else 0
        for work in scheduler.schedule(FixedDrafter(), float(second)).works:
            scheduler.commit(work, [draw.randint(1, 3)] if work.samples else [])
        second += 1
        running_before = seats * 10
        assert second <= (priority + 1) * 5.0 + 8.0 + 2 * (ahead + running_before + one.most_tokens)
    assert ahead <= 2 * 10 * ((priority + 1) * 5.0 + 8.0 + 1), "nobody who came later was ahead of it"


def _scheduler(blocks: int = 20, **knobs: int) -> Scheduler:
    return Scheduler(KvCache(BlockPool(blocks, SIZE), GROUPS), EngineConfig(**knobs))


def _add(scheduler: Scheduler, length: int, outputs: int = 4, token: int = 1) -> Request:
    request = Request("r", [token] * length, SamplingParams(outputs))
    scheduler.add(request)
    return request


def _step(scheduler: Scheduler, token: int = 2) -> list[Work]:
    works = scheduler.schedule(NgramDrafter(), 1.0).works
    for work in works:
        scheduler.commit(work, [token] if work.samples else [])
    return works


def test_a_step_mixes_decodes_and_a_cut_prefill() -> None:
    scheduler = _scheduler(max_num_batched_tokens=10)
    _add(scheduler, 3)
    _step(scheduler)
    _add(scheduler, 30, token=5)
    assert [work.count for work in _step(scheduler)] == [1, 9]


def test_the_prefill_chunk_leaves_room_for_others() -> None:
    scheduler = _scheduler(max_num_batched_tokens=20, prefill_chunk_size=8)
    _add(scheduler, 30)
    _add(scheduler, 30, token=2)
    assert [work.count for work in _step(scheduler)] == [8, 8]


def test_lowering_max_num_seqs_preempts_the_youngest_at_once() -> None:
    scheduler = _scheduler()
    first, second = _add(scheduler, 5, 9), _add(scheduler, 5, 9, token=2)
    _step(scheduler)
    scheduler.config = EngineConfig(max_num_seqs=1)
    assert scheduler.schedule(NgramDrafter(), 2.0).preemptions == 1
    assert (first.status, second.status) == (Status.RUNNING, Status.WAITING)
    assert second.scheduled_at == 1.0, "a preempted request has left the queue for good"


def test_decodes_leave_a_token_to_the_foremost_request_that_computes_its_prompt() -> None:
    scheduler = _scheduler(max_num_batched_tokens=8, prefill_chunk_size=2)
    foremost = _add(scheduler, 30)
    for token in (2, 3, 4):
        _add(scheduler, 2, 9, token=token)
    _step(scheduler)
    scheduler.config = EngineConfig(max_num_batched_tokens=2)
    for _ in range(3):
        assert [work.request for work in _step(scheduler)].count(foremost) == 1


def test_a_step_that_preempts_starts_nobody() -> None:
    scheduler = _new(EngineConfig(), Policy(scheduling_policy=SchedulingPolicy.PRIORITY), 5)
    first, second = _add(scheduler, 8, 9), _add(scheduler, 8, 9, token=2)
    _step(scheduler)
    urgent = Request("r", [3], SamplingParams(1), priority=-1)
    scheduler.add(urgent)
    plan = scheduler.schedule(NgramDrafter(), 1.0)
    assert plan.preemptions == 1 and second.status is Status.WAITING, "both wanted the last block"
    assert [work.request for work in plan.works] == [first], "blocks are short in this step"
    scheduler.commit(plan.works[0], [2])
    assert urgent in [work.request for work in _step(scheduler)]


def test_a_draining_scheduler_starts_nothing_new() -> None:
    scheduler = _scheduler()
    _add(scheduler, 5)
    _step(scheduler)
    scheduler.admitting = False
    late = _add(scheduler, 5)
    while scheduler.has_work:
        _step(scheduler)
    assert scheduler.is_drained and late.status is Status.WAITING
    scheduler.admitting = True
    assert scheduler.has_work


def test_a_stop_token_ends_within_a_speculative_step() -> None:
    scheduler = _scheduler(num_speculative_tokens=3)
    request = Request("r", [1] * 6, SamplingParams(10, stop_token_ids=frozenset({9})))
    scheduler.add(request)
    _step(scheduler)
    work = scheduler.schedule(FixedDrafter(), 2.0).works[0]
    kept, reason = scheduler.commit(work, [4, 9, 5, 6])
    assert (kept, reason) == ([4, 9], FinishReason.STOP)
    assert scheduler.cache.pool.num_held == 0


def test_ending_a_request_frees_its_blocks_wherever_it_is() -> None:
    scheduler = _scheduler(max_num_seqs=1)
    running, waiting = _add(scheduler, 5), _add(scheduler, 5)
    _step(scheduler)
    for request in (running, waiting, running):
        scheduler.finish(request, FinishReason.ABORT)
    assert scheduler.cache.pool.num_held == 0 and not scheduler.has_work


def test_one_draft_is_drafted_too_and_none_beyond_the_last_token() -> None:
    scheduler = _scheduler(num_speculative_tokens=1)
    request = _add(scheduler, 6, outputs=3)
    _step(scheduler)
    work = scheduler.schedule(FixedDrafter(), 2.0).works[0]
    assert work.draft_count == 1
    scheduler.commit(work, [2])
    assert request.num_outputs == 2
    assert scheduler.schedule(FixedDrafter(), 3.0).works[0].draft_count == 0, "its next token is its last"


def test_a_stay_is_counted_from_the_start_not_from_the_arrival() -> None:
    scheduler = _scheduler()
    request = _add(scheduler, 5)
    never = _add(scheduler, 5)
    scheduler.finish(never, FinishReason.ABORT)
    assert scheduler.throughput.service_s is None
    scheduler.schedule(NgramDrafter(), 20.0)
    scheduler.schedule(NgramDrafter(), 23.0)
    scheduler.finish(request, FinishReason.ABORT)
    assert scheduler.throughput.service_s == 3.0


def test_the_limit_of_prompts_follows_how_many_wait_for_each_that_runs() -> None:
    budget = 8192
    scheduler = _new(EngineConfig(max_num_batched_tokens=budget, max_num_seqs=1), Policy(itl_target_s=0.1), 500)
    _add(scheduler, 5)
    _add(scheduler, 5)
    (first,) = scheduler.schedule(NgramDrafter(), 1.0).works
    scheduler.commit(first, [2])
    plan = StepPlan([Work(first.request, 5, 1), Work(first.request, 0, 100)], budget, 0, StepLimit.NO_WORK)
    scheduler.observe(plan, 0.2)
    alone = PrefillLimit(0.1)
    alone.observe(0.2, 100, 1, budget, 1.0)
    assert scheduler.prefill_limit.tokens(budget) == alone.tokens(budget) < budget
