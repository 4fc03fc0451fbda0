"""Which tokens each step computes: continuous batching under a token budget.

Rules, all first come first served: running decodes come first (a decode is one token and its drafts), then running
prefills, then waiting requests. A prefill is cut to what the budget leaves and to `prefill_chunk_size`. When no block
is free, or `max_num_seqs` was lowered, the youngest running request is preempted: it gives its blocks back and later
computes its tokens again (most come from the prefix cache).

Invariants: a step never exceeds `max_num_batched_tokens`; at most `max_num_seqs` run; a request never overtakes an
older one of its own kind; the oldest request always makes progress, so that none starves.
"""

from bisect import insort
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Protocol

from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.sequence import FinishReason, Sequence, Status
from controlplane.contract.knobs import EngineConfig


@dataclass(slots=True)
class Work:
    """One sequence's part of a step: tokens [start, start + count), then its drafts (filled by the drafter)."""

    sequence: Sequence
    start: int
    count: int
    draft_count: int = 0
    drafts: list[int] = field(default_factory=list)

    @property
    def samples(self) -> bool:
        """Whether it reaches the sequence's end, so that a next token comes out."""
        return self.start + self.count == len(self.sequence.tokens)


@dataclass(frozen=True)
class StepPlan:
    works: list[Work]
    batched_tokens: int
    preemptions: int


class Drafter(Protocol):
    """Proposes tokens. `reserve` says how many it will propose, at most `limit`; `propose` fills in works' drafts."""

    def reserve(self, sequence: Sequence, limit: int) -> int: ...

    def propose(self, works: Items[Work]) -> None: ...

    def commit(self, work: Work, accepted: int) -> None:
        """The step's outcome: how many of the work's drafts were accepted."""


class Scheduler:
    """The waiting and running requests. `config` may be replaced between steps."""

    def __init__(self, cache: KvCache, config: EngineConfig) -> None:
        self.cache, self.config = cache, config
        self.waiting: list[Sequence] = []  # By order of arrival.
        self.running: list[Sequence] = []  # By order of arrival.
        self.admitting = True  # False while a drained swap waits: only preempted requests are resumed.
        self.prefix_queries = 0
        self.prefix_hits = 0
        self._arrivals = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something."""
        return bool(self.running) or (bool(self.waiting) and self._may_start(self.waiting[0]))

    @property
    def is_drained(self) -> bool:
        """Whether no request has begun and is unfinished."""
        return not self.running and not any(sequence.scheduled_at is not None for sequence in self.waiting)

    def add(self, sequence: Sequence) -> None:
        """Queue a new request. It must fit the pool by itself (`fits`)."""
        assert self.fits(sequence.most_tokens)
        self._arrivals += 1
        sequence.order = self._arrivals
        self.waiting.append(sequence)

    def fits(self, tokens: int) -> bool:
        """Whether a request of this many tokens, prompt and output, can ever be served."""
        return self.cache.fits(tokens)

    def schedule(self, drafter: Drafter, now: float) -> StepPlan:
        """The next step's work; empty when there is none."""
        works: list[Work] = []
        preemptions = 0
        while len(self.running) > self.config.max_num_seqs:
            self._preempt_youngest()
            preemptions += 1
        budget = self.config.max_num_batched_tokens
        running_before = len(self.running)
        # The oldest request is never held up by younger ones' decodes, not even under a budget of one token.
        kept_for_oldest = 1 if self.running and self.running[0].remaining > 1 else 0
        budget -= self._schedule_decodes(works, budget - kept_for_oldest, drafter)
        preempted_for_blocks = running_before - len(self.running)
        for running in self.running:
            if budget > 0 and running.remaining > 1:
                budget -= self._schedule_prefill(works, running, budget)
        if not preempted_for_blocks:
            while budget > 0 and len(self.running) < self.config.max_num_seqs and (sequence := self._admit(now)):
                budget -= self._schedule_prefill(works, sequence, budget)
        return StepPlan(works, self.config.max_num_batched_tokens - budget, preemptions + preempted_for_blocks)

    def commit(self, work: Work, tokens: Items[int]) -> tuple[list[int], FinishReason | None]:
        """Take in a computed work and the tokens it gave (accepted drafts and one more; none for part of a prefill).

        Returns the tokens kept (fewer when the sequence ended within them) and the reason when it ended.
        """
        sequence = work.sequence
        kept: list[int] = []
        reason: FinishReason | None = None
        for token in tokens:
            kept.append(token)
            if reason := sequence.append(token):
                break
        # The last token kept has no keys and values yet; those before it have.
        sequence.num_computed = work.start + work.count + max(0, len(kept) - 1)
        self.cache.computed(sequence)
        if reason:
            self.finish(sequence, reason)
        return kept, reason

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a request wherever it is; its blocks are free at once. Ending twice does nothing."""
        if sequence.status is Status.FINISHED:
            return
        (self.running if sequence.status is Status.RUNNING else self.waiting).remove(sequence)
        self.cache.release(sequence)
        sequence.status, sequence.finish_reason = Status.FINISHED, reason

    def _schedule_decodes(self, works: list[Work], budget: int, drafter: Drafter) -> int:
        decoding = [sequence for sequence in self.running if sequence.remaining == 1]
        prefilling = len(self.running) - len(decoding)
        draft_length = self.config.draft_length(len(self.running))
        used = 0
        for place, sequence in enumerate(decoding):
            if used == budget:
                break
            if sequence.status is not Status.RUNNING or not self._grow(sequence):
                continue
            # Drafts never take the one token that each other running request can count on.
            spare = budget - used - (len(decoding) - place) - prefilling
            limit = min(draft_length, spare, sequence.params.max_tokens - sequence.num_outputs - 1)
            drafts = drafter.reserve(sequence, limit) if limit > 0 else 0
            drafts = self.cache.grow_for_drafts(sequence, drafts)
            works.append(Work(sequence, sequence.num_computed, 1, drafts))
            used += 1 + drafts
        return used

    def _schedule_prefill(self, works: list[Work], sequence: Sequence, budget: int) -> int:
        count = min(sequence.remaining, budget)
        if self.config.prefill_chunk_size:
            count = min(count, self.config.prefill_chunk_size)
        works.append(Work(sequence, sequence.num_computed, count))
        return count

    def _may_start(self, sequence: Sequence) -> bool:
        return self.admitting or sequence.scheduled_at is not None

    def _admit(self, now: float) -> Sequence | None:
        """Start the oldest waiting request if its tokens' blocks are free; takes up cached blocks of its prefix."""
        if not self.waiting or not self._may_start(self.waiting[0]):
            return None
        sequence = self.waiting[0]
        if not self.cache.admit(sequence):
            return None
        del self.waiting[0]
        if sequence.scheduled_at is None:
            sequence.scheduled_at = now
            sequence.cached_tokens = sequence.num_computed
            self.prefix_queries += sequence.prompt_length
            self.prefix_hits += sequence.num_computed
        sequence.status = Status.RUNNING
        insort(self.running, sequence, key=_order)
        return sequence

    def _grow(self, sequence: Sequence) -> bool:
        """Make room for the next token, preempting the youngest while there is none; False when that was itself."""
        while not self.cache.grow(sequence, len(sequence.tokens)):
            victim = self.running[-1]
            self._preempt_youngest()
            if victim is sequence:
                return False
        return True

    def _preempt_youngest(self) -> None:
        sequence = self.running.pop()
        self.cache.release(sequence)
        sequence.status = Status.WAITING
        insort(self.waiting, sequence, key=_order)


def _order(sequence: Sequence) -> int:
    return sequence.order
