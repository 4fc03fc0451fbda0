"""The scheduler against a made-up model: budgets hold, blocks are nobody else's, everybody gets served in order."""

from collections.abc import Sequence as Items

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.sampling.params import SamplingParams
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.scheduler import Scheduler, Work
from agents.engine.scheduling.sequence import FinishReason, Sequence, Status
from agents.engine.speculation.drafting import NgramDrafter
from controlplane.contract.knobs import EngineConfig

SIZE = 4
GROUPS = (CacheGroup((0,)),)


class FixedDrafter:
    """Always drafts as much as it may."""

    def reserve(self, sequence: Sequence, limit: int) -> int:
        return limit

    def propose(self, works: Items[Work]) -> None:
        for work in works:
            work.drafts = [1] * work.draft_count

    def commit(self, work: Work, accepted: int) -> None:
        pass


configs = st.builds(
    EngineConfig,
    max_num_batched_tokens=st.integers(1, 40),
    prefill_chunk_size=st.integers(0, 9),
    max_num_seqs=st.integers(1, 6),
    num_speculative_tokens=st.integers(0, 4),
)
requests = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=10)


def _check_blocks(scheduler: Scheduler) -> None:
    """No leak, no foreign block: held blocks are exactly those of running sequences; a shared one has one content."""
    held = {block for sequence in scheduler.running for block in sequence.tables[0]}
    assert scheduler.cache.pool.num_held == len(held)
    assert 0 not in held
    prefix_of: dict[int, tuple[int, ...]] = {}
    for sequence in scheduler.running:
        assert len(set(sequence.tables[0])) == len(sequence.tables[0])
        assert len(sequence.tables[0]) * SIZE >= sequence.num_computed
        for index, block in enumerate(sequence.tables[0][: sequence.num_computed // SIZE]):
            prefix = tuple(sequence.tokens[: (index + 1) * SIZE])
            assert prefix_of.setdefault(block, prefix) == prefix


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    configs, requests, st.integers(8, 14), st.lists(st.tuples(st.integers(0, 40), configs), max_size=2), st.randoms()
)
def test_everything_is_served_within_the_limits(config, asked, num_blocks, changes, draw) -> None:  # type: ignore[no-untyped-def]
    scheduler = Scheduler(KvCache(BlockPool(num_blocks, SIZE), GROUPS), config)
    sequences = []
    for number, (length, outputs, kind) in enumerate(asked):
        prompt = [kind % 3 + 1] * length
        sequences.append(Sequence(str(number), prompt, SamplingParams(outputs)))
    arrivals = [(kind * 3, sequence) for (_, _, kind), sequence in zip(asked, sequences, strict=True)]
    arrivals.sort(key=lambda pair: pair[0])
    first_scheduled: list[int] = []
    drafter = FixedDrafter()
    step = 0
    while arrivals or scheduler.has_work:
        while arrivals and arrivals[0][0] <= step:
            scheduler.add(arrivals.pop(0)[1])
        for at, changed in changes:
            if at == step:
                scheduler.config = changed
        running_before = list(scheduler.running)
        oldest = min([*scheduler.running, *scheduler.waiting], key=lambda sequence: sequence.order, default=None)
        plan = scheduler.schedule(drafter, float(step))
        drafter.propose(plan.works)
        rows = sum(work.count + len(work.drafts) for work in plan.works)
        assert rows == plan.batched_tokens <= scheduler.config.max_num_batched_tokens
        assert len(scheduler.running) <= scheduler.config.max_num_seqs
        assert len({work.sequence for work in plan.works}) == len(plan.works)
        _check_blocks(scheduler)
        if oldest is not None:
            assert any(work.sequence is oldest for work in plan.works), "the oldest request makes progress in each step"
        first_scheduled += [
            s.order for s in scheduler.running if s not in running_before and s.order not in first_scheduled
        ]
        for work in plan.works:
            assert work.sequence.status is Status.RUNNING
            assert len(work.sequence.tables[0]) * SIZE >= work.start + work.count + len(work.drafts)
            outcome = [draw.randint(1, 3) for _ in range(draw.randint(0, len(work.drafts)) + 1)] if work.samples else []
            scheduler.commit(work, outcome)
        _check_blocks(scheduler)
        step += 1
        assert step < 3000, "somebody starves"
    assert scheduler.cache.pool.num_held == 0
    assert all(s.status is Status.FINISHED and s.num_outputs == s.params.max_tokens for s in sequences)
    assert first_scheduled == sorted(first_scheduled), "first come, first served"


def _scheduler(blocks: int = 20, **knobs: int) -> Scheduler:
    return Scheduler(KvCache(BlockPool(blocks, SIZE), GROUPS), EngineConfig(**knobs))  # type: ignore[arg-type]


def _add(scheduler: Scheduler, length: int, outputs: int = 4, token: int = 1) -> Sequence:
    sequence = Sequence("r", [token] * length, SamplingParams(outputs))
    scheduler.add(sequence)
    return sequence


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
    sequence = Sequence("r", [1] * 6, SamplingParams(10, stop_token_ids=frozenset({9})))
    scheduler.add(sequence)
    _step(scheduler)
    work = scheduler.schedule(FixedDrafter(), 2.0).works[0]
    kept, reason = scheduler.commit(work, [4, 9, 5, 6])
    assert (kept, reason) == ([4, 9], FinishReason.STOP)
    assert scheduler.cache.pool.num_held == 0


def test_ending_a_request_frees_its_blocks_wherever_it_is() -> None:
    scheduler = _scheduler(max_num_seqs=1)
    running, waiting = _add(scheduler, 5), _add(scheduler, 5)
    _step(scheduler)
    for sequence in (running, waiting, running):
        scheduler.finish(sequence, FinishReason.ABORT)
    assert scheduler.cache.pool.num_held == 0 and not scheduler.has_work
