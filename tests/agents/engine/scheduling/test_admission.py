"""Who is refused, exactly when, and with what error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.drafting.drafting import NgramDrafter
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.admission import Admission, Coming, Load
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.policy import Policy, SchedulingPolicy
from agents.engine.scheduling.request import FinishReason, Request, Status
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.throughput import Throughput
from agents.engine.scheduling.waiting_queue import WaitingQueue
from controlplane.contract.errors import DeadlineUnmet, Overloaded
from controlplane.contract.knobs import EngineConfig

IDLE = Load(running=0, seats=4, prompt_tokens=0, tokens_per_step=100)


def _scheduler(seats: int = 1, **policy: object) -> Scheduler:
    cache = KvCache(BlockPool(400, 4), (CacheGroup((0,)),))
    return Scheduler(cache, EngineConfig(max_num_seqs=seats), Policy(**policy))  # type: ignore[arg-type]


def _sequence(length: int = 4, priority: int = 0, arrived_at: float = 0.0, deadline: float | None = None) -> Request:
    return Request("r", [1] * length, SamplingParams(4), priority=priority, arrived_at=arrived_at, deadline=deadline)


def _step(scheduler: Scheduler, now: float) -> None:
    plan = scheduler.schedule(NgramDrafter(), now)
    for work in plan.works:
        scheduler.commit(work, [5] if work.samples else [])
    scheduler.observe(plan, 1.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(-2, 2)), max_size=20),
    st.none() | st.integers(0, 6),
    st.none() | st.integers(1, 30),
    st.sampled_from(SchedulingPolicy),
)
def test_a_request_is_shed_exactly_when_the_limits_say_so(
    asked: list[tuple[int, int]], most: int | None, most_tokens: int | None, policy: SchedulingPolicy
) -> None:
    scheduler = _scheduler(
        max_waiting=most, max_waiting_tokens=most_tokens, scheduling_policy=policy, priority_aging_s=1e9
    )
    waiting: list[Request] = []  # The model: a list that is searched.
    for number, (length, priority) in enumerate(asked):
        newcomer = _sequence(length, priority, float(number))
        ended = scheduler.add(newcomer)

        def full(kept: list[Request], length: int = length) -> bool:
            tokens = sum(len(request.tokens) for request in kept) + length
            return (most is not None and len(kept) >= most) or bool(
                most_tokens is not None and kept and tokens > most_tokens
            )

        kept, given_up = list(waiting), []
        while full(kept):
            least = max(kept, key=lambda s: (s.urgency, s.order), default=None)
            if least is None or least.urgency <= newcomer.urgency:
                kept, given_up = list(waiting), [newcomer]
                break
            kept.remove(least)
            given_up.append(least)
        assert [one.request for one in ended] == given_up
        waiting = kept if newcomer in given_up else [*kept, newcomer]
        assert set(scheduler.waiting) == set(waiting)
        for one in ended:
            assert one.reason is FinishReason.SHED and one.request.status is Status.FINISHED
            assert isinstance(one.failure, Overloaded)
            why = one.failure.detail["degraded"]["reason"]
            assert why == "displaced" or one.request is newcomer
        if policy is SchedulingPolicy.FCFS:
            assert all(one.request is newcomer for one in ended), "by arrival nobody is displaced"


def test_the_refusal_says_why_and_when_to_come_back() -> None:
    scheduler = _scheduler(max_waiting=2)
    scheduler.add(_sequence(40))
    for second in range(5):
        _step(scheduler, float(second))
    assert scheduler.throughput.service_s == 3.0
    scheduler.add(_sequence(40))
    _step(scheduler, 5.0)
    for _ in range(2):
        scheduler.add(_sequence(40))
    with pytest.raises(Overloaded) as refused:
        scheduler.admission.check(10, 0, None, scheduler.load)
    wait_s = scheduler.admission.estimated_wait_s(10, 0, scheduler.load)
    assert wait_s is not None and wait_s > 1
    detail = refused.value.detail
    assert detail["degraded"] == {
        "reason": "queue_full",
        "waiting": 2,
        "waiting_tokens": 80,
        "estimated_wait_s": round(wait_s, 3),
        "limit": 2,
    }
    assert refused.value.retry_after_s == wait_s and refused.value.status == 429


def test_retry_after_grows_with_the_backlog() -> None:
    scheduler = _scheduler(max_waiting=None)
    waits = []
    scheduler.add(_sequence(8))
    for _ in range(4):
        _step(scheduler, 1.0)
    for _ in range(3):
        for _ in range(5):
            scheduler.add(_sequence(100))
        waits.append(scheduler.admission.estimated_wait_s(10, 0, scheduler.load) or 0.0)
    assert 0 < waits[0] < waits[1] < waits[2]


def test_requests_on_their_way_to_the_queue_count() -> None:
    admission = Admission(Policy(max_waiting=3), queue := WaitingQueue(Policy()), Throughput())
    assert not len(queue)
    admission.check(5, 0, None, IDLE, coming=Coming(2, 10))
    with pytest.raises(Overloaded) as refused:
        admission.check(5, 0, None, IDLE, coming=Coming(3, 15))
    assert refused.value.detail["degraded"]["waiting"] == 3


def test_one_that_may_displace_somebody_on_the_way_is_let_through() -> None:
    policy = Policy(max_waiting=1, scheduling_policy=SchedulingPolicy.PRIORITY)
    admission = Admission(policy, WaitingQueue(policy), Throughput())
    coming = Coming().plus(5, priority=2).plus(5, priority=0)
    admission.check(5, 1, None, IDLE, coming)
    with pytest.raises(Overloaded):
        admission.check(5, 2, None, IDLE, coming)
    assert coming.minus(5).minus(5) == Coming()


def test_a_prompt_beyond_the_token_limit_waits_alone_or_not_at_all() -> None:
    scheduler = _scheduler(max_waiting_tokens=10)
    alone = _sequence(50)
    assert scheduler.add(alone) == []
    (shed,) = scheduler.add(_sequence(1))
    assert shed.failure is not None and shed.failure.detail["degraded"]["reason"] == "queued_tokens"
    _step(scheduler, 1.0)
    assert alone.status is Status.RUNNING


def test_what_has_begun_is_never_displaced() -> None:
    scheduler = _scheduler(seats=2, max_waiting=1, scheduling_policy="priority")
    first, second = _sequence(priority=3), _sequence(priority=4)
    for request in (first, second):
        scheduler.add(request)
        _step(scheduler, 1.0)
    scheduler.config = EngineConfig(max_num_seqs=1)
    _step(scheduler, 2.0)
    assert second.status is Status.WAITING, "preempted"
    urgent = _sequence(priority=-5)
    (shed,) = scheduler.add(urgent)
    assert shed.request is urgent and second.status is Status.WAITING


def test_a_deadline_that_cannot_be_met_is_refused_at_once() -> None:
    scheduler = _scheduler()
    check = scheduler.admission.check
    check(10, 0, 0.001, scheduler.load)  # Nothing was measured yet, so nothing is claimed.
    scheduler.add(_sequence(8))
    for second in range(4):
        _step(scheduler, float(second))
    for _ in range(4):
        scheduler.add(_sequence(100))
    wait_s = scheduler.admission.estimated_wait_s(10, 0, scheduler.load)
    assert wait_s is not None and wait_s > 1
    check(10, 0, wait_s * 1.01, scheduler.load)
    with pytest.raises(DeadlineUnmet) as refused:
        check(10, 0, wait_s * 0.99, scheduler.load)
    assert refused.value.status == 503 and refused.value.detail["retry_after_s"] == wait_s
    assert refused.value.detail["field"] == "timeout_s"
    assert refused.value.detail["degraded"]["reason"] == "deadline"
    with pytest.raises(DeadlineUnmet):
        check(10, 0, 0.0, IDLE)


def test_more_urgent_ones_wait_less_by_estimate() -> None:
    scheduler = _scheduler(scheduling_policy="priority")
    scheduler.add(_sequence(8))
    _step(scheduler, 1.0)
    for _ in range(5):
        scheduler.add(_sequence(100, priority=1))
    urgent = scheduler.admission.estimated_wait_s(10, 0, scheduler.load)
    assert (urgent or 0.0) < (scheduler.admission.estimated_wait_s(10, 2, scheduler.load) or 0.0)


def test_one_that_waits_past_its_deadline_is_dropped_with_an_error() -> None:
    scheduler = _scheduler()
    running, late = _sequence(deadline=50.0), _sequence(arrived_at=1.0, deadline=3.0)
    for request in (running, late):
        scheduler.add(request)
    _step(scheduler, 1.0)
    assert scheduler.next_deadline == 3.0 and scheduler.expire(2.9) == []
    (ended,) = scheduler.expire(3.0)
    assert (ended.request, ended.reason) == (late, FinishReason.TIMEOUT)
    assert isinstance(ended.failure, DeadlineUnmet) and ended.failure.detail["degraded"]["reason"] == "timed_out"
    assert ended.failure.detail["degraded"]["limit"] == 2.0
    assert late not in scheduler.waiting and running.status is Status.RUNNING


def test_a_running_one_past_its_deadline_keeps_what_it_has_and_frees_its_blocks() -> None:
    scheduler = _scheduler()
    request = _sequence(deadline=3.0)
    scheduler.add(request)
    _step(scheduler, 1.0)
    (ended,) = scheduler.expire(3.5)
    assert (ended.reason, ended.failure, request.num_outputs) == (FinishReason.TIMEOUT, None, 1)
    assert scheduler.cache.pool.num_held == 0 and not scheduler.has_work
    assert scheduler.next_deadline is None
