"""Which tokens each step computes: continuous batching under a token budget.

Everything goes by rank (policy.py): arrival, or priority that ages. Running decodes come first (a decode is one token
and its drafts), then running prefills, then waiting requests. A prefill is cut to what the budget leaves and to
`prefill_chunk_size`; long prompts have a lane of their own if that is switched on (lanes.py). When no block is free, or
`max_num_seqs` was lowered, the hindmost running request is preempted: it gives its blocks back and later computes its
tokens again (most come from the prefix cache).

Invariants: a step never exceeds `max_num_batched_tokens`; at most `max_num_seqs` run; a request is overtaken by those
with a smaller rank only, or by short ones while the lane for long ones is full; the foremost running request advances
in every step. The foremost of all therefore starts once those that ran before it are done, at the latest, so that a
request waits for the work of a bounded number of others: none starves.
"""

from bisect import insort
from collections.abc import Sequence

from agents.engine.scheduling.admission import Admission, Ended, Load
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.dynamic_limits import PrefillLimit
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.lanes import kept_for_prompts, most_for_long, take_turns
from agents.engine.scheduling.lazy_heap import LazyHeap
from agents.engine.scheduling.policy import Policy, Rank
from agents.engine.scheduling.request import FinishReason, Request, Status
from agents.engine.scheduling.step_limit import limit_of_plan
from agents.engine.scheduling.step_plan import StepPlan, Work
from agents.engine.scheduling.throughput import Throughput
from agents.engine.scheduling.waiting_queue import WaitingQueue
from controlplane.contract.knobs import EngineConfig


class Scheduler:
    """The waiting and running requests. `config` may be replaced between steps. One thread changes it."""

    def __init__(self, cache: KvCache, config: EngineConfig, policy: Policy | None = None) -> None:
        self.cache, self.config = cache, config
        self.policy = policy or Policy()
        self.waiting = WaitingQueue(self.policy)
        self.running: list[Request] = []  # By rank.
        self.admitting = True  # False while a drained swap waits: only preempted requests are resumed.
        self.throughput = Throughput()
        self.prefill_limit = PrefillLimit(self.policy.itl_target_s)
        self.admission = Admission(self.policy, self.waiting, self.throughput)
        self._deadlines: LazyHeap[Request] = LazyHeap()  # Of all that are unfinished and have one.
        self._arrivals = 0
        self._turn = 0  # How far the turns of decodes have gone that do not all fit a step.
        self._preemptions = 0  # In the step being planned.
        self._short_of_blocks = False
        self._cut_by_blocks = self._cut_by_budget = self._cut_by_chunk = False  # Prompts, in the step being planned.
        self._prompt_tokens = 0  # Of running requests, at the last step's start.
        self._now = 0.0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something."""
        return bool(self.running) or self.waiting.next(new=self.admitting) is not None

    @property
    def is_drained(self) -> bool:
        """Whether no request has begun and is unfinished."""
        return not self.running and not self.waiting.has_begun

    @property
    def prefix_queries(self) -> int:
        """Prompt tokens looked up in the prefix cache."""
        return self.cache.queried_tokens

    @property
    def prefix_hits(self) -> int:
        """Prompt tokens found there."""
        return self.cache.hit_tokens

    @property
    def next_deadline(self) -> float | None:
        """When `expire` next has something to do, if nothing ends before."""
        deadline: float | None = self._deadlines.first_key()
        return deadline

    @property
    def load(self) -> Load:
        """What keeps newcomers waiting besides the queue. Other threads may ask."""
        running, config = len(self.running), self.config
        seats = min(running, config.max_num_seqs) if self._short_of_blocks else config.max_num_seqs
        return Load(running, seats, self._prompt_tokens, self.prefill_limit.tokens(config.max_num_batched_tokens))

    def add(self, request: Request) -> list[Ended]:
        """Queue a new request, which must fit the pool by itself (`fits`).

        Returns those that ended for it because more would wait than may: less urgent ones, or it itself.
        """
        assert self.fits(request.most_tokens)
        self._arrivals += 1
        request.order = self._arrivals
        request.urgency = self.policy.urgency(request.arrived_at, request.priority)
        self._choose_lane(request)
        ended = self.admission.make_room(request, lambda: self.load)
        for one in ended:  # Those that waited are out of the queue already.
            self._deadlines.discard(one.request)
            one.request.status, one.request.finish_reason = Status.FINISHED, one.reason
        if request.status is not Status.FINISHED:
            self.waiting.add(request)
            if request.deadline is not None:
                self._deadlines.push(request.deadline, request)
        return ended

    def fits(self, tokens: int) -> bool:
        """Whether a request of this many tokens, prompt and output, can ever be served."""
        return self.cache.fits(tokens)

    def expire(self, now: float) -> list[Ended]:
        """End the requests whose deadline has passed, wherever they are; their blocks are free at once."""
        self._now = now
        ended: list[Ended] = []
        while (deadline := self.next_deadline) is not None and deadline <= now:
            request = self._deadlines.first()
            assert request is not None
            ended.append(self.admission.timed_out(request, self.load))
            self.finish(request, FinishReason.TIMEOUT)
        return ended

    def schedule(self, drafter: Drafter, now: float) -> StepPlan:
        """The next step's work; empty when there is none."""
        self._now, self._preemptions = now, 0
        self._cut_by_blocks = self._cut_by_budget = self._cut_by_chunk = False
        works: list[Work] = []
        while len(self.running) > self.config.max_num_seqs:
            self._preempt_hindmost(works)
        preempted_for_seats = self._preemptions
        budget = self.config.max_num_batched_tokens
        most_prompts = self.prefill_limit.tokens(budget)
        kept_for_long, kept_for_short = kept_for_prompts(self.policy, self.running, most_prompts)
        used = self._schedule_decodes(works, budget - kept_for_long - kept_for_short, drafter)
        prompts = min(budget - used, most_prompts)
        prefilling = [request for request in self.running if len(request.tokens) > request.num_computed + 1]
        self._prompt_tokens = sum([request.remaining for request in prefilling])
        long = [request for request in prefilling if self.policy.is_long(request.remaining)]
        for request in prefilling:
            if self.policy.is_long(request.remaining):
                continue
            if prompts > kept_for_long:
                prompts -= self._schedule_prefill(works, request, prompts - kept_for_long)
            else:
                self._cut_by_budget = True
        if self._preemptions == preempted_for_seats:
            prompts = self._admit_waiting(works, long, prompts, kept_for_long)
        else:
            self._short_of_blocks = True
        if long:
            left = most_for_long(self.policy, most_prompts, kept_for_long, prompts, alone=not works)
            self._schedule_long(works, long, left)
        limit = limit_of_plan(
            blocks=self._preemptions > preempted_for_seats or self._short_of_blocks or self._cut_by_blocks,
            budget=self._cut_by_budget,
            seats=len(self.running) >= self.config.max_num_seqs and self._somebody_may_start,
            chunk=self._cut_by_chunk,
        )
        return StepPlan(works, budget, self._preemptions, limit)

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Take in how long a step took."""
        self.throughput.step(plan.batched_tokens, seconds)
        budget = self.config.max_num_batched_tokens
        depth = len(self.waiting) / max(1, len(self.running))
        self.prefill_limit.observe(seconds, plan.prompt_tokens, plan.decodes, budget, depth)

    def commit(self, work: Work, tokens: Sequence[int]) -> tuple[list[int], FinishReason | None]:
        """Take in a computed work and the tokens it gave (accepted drafts and one more; none for part of a prefill).

        Returns the tokens kept (fewer when the request ended within them) and the reason when it ended.
        """
        request = work.request
        kept: list[int] = []
        reason: FinishReason | None = None
        for token in tokens:
            kept.append(token)
            if reason := request.append(token):
                break
        # The last token kept has no keys and values yet; those before it have.
        request.num_computed = work.start + work.count + max(0, len(kept) - 1)
        self.cache.computed(request)
        if reason:
            self.finish(request, reason)
        return kept, reason

    def finish(self, request: Request, reason: FinishReason) -> None:
        """End a request wherever it is; its blocks are free at once. Ending twice does nothing."""
        if request.status is Status.FINISHED:
            return
        self._deadlines.discard(request)
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self.cache.release(request)
        request.status, request.finish_reason = Status.FINISHED, reason
        if request.scheduled_at is not None:
            self.throughput.served(self._now - request.scheduled_at)

    @property
    def _somebody_may_start(self) -> bool:
        """Whether a request waits that would start if there were a seat (or a lane for its long prompt)."""
        return len(self.waiting) > 0 if self.admitting else self.waiting.has_begun

    def _schedule_decodes(self, works: list[Work], budget: int, drafter: Drafter) -> int:
        decoding = [request for request in self.running if len(request.tokens) == request.num_computed + 1]
        prefilling = len(self.running) - len(decoding)
        if len(decoding) > budget:
            decoding = take_turns(decoding, budget, self._turn)
            self._turn += max(0, budget - 1)
            self._cut_by_budget = True
        draft_length = self.config.draft_length(len(self.running))
        used = 0
        for place, request in enumerate(decoding):
            if not self._grow(request, len(request.tokens), works):
                continue
            # Drafts never take the one token that each other running request can count on.
            drafts = 0
            if draft_length:
                spare = budget - used - (len(decoding) - place) - prefilling
                limit = min(draft_length, spare, request.params.max_tokens - request.num_outputs - 1)
                drafts = drafter.reserve(request, limit) if limit > 0 else 0
            if drafts:
                drafts = self.cache.grow_for_drafts(request, drafts)
            works.append(Work(request, request.num_computed, 1, drafts))
            used += 1 + drafts
        return used

    def _schedule_prefill(self, works: list[Work], request: Request, budget: int) -> int:
        """Compute as much of a prompt as the budget allows; returns the tokens it takes from it."""
        count = request.remaining
        chunk = self.config.prefill_chunk_size or count
        if budget < count or chunk < count:
            if budget <= chunk:
                self._cut_by_budget, count = True, budget
            else:
                self._cut_by_chunk, count = True, chunk
        given = 0
        while request.status is Status.RUNNING and not (given := self.cache.grow_prefill(request, count)):
            self._preempt_hindmost(works)
        if given:
            works.append(Work(request, request.num_computed, given))
            if given < count:
                self._cut_by_blocks = True
        return given

    def _schedule_long(self, works: list[Work], long: list[Request], budget: int) -> None:
        """Divide what is there for long prompts evenly, foremost first."""
        for place, request in enumerate(sorted(long, key=_rank)):
            if share := -(-budget // (len(long) - place)):
                budget -= self._schedule_prefill(works, request, share)
            else:
                self._cut_by_budget = True

    def _admit_waiting(self, works: list[Work], long: list[Request], prompts: int, kept_for_long: int) -> int:
        """Start waiting requests while there is room; long ones join `long`. Returns the prompt tokens left."""
        self._short_of_blocks = False
        preemptions = self._preemptions
        while len(self.running) < self.config.max_num_seqs and self._preemptions == preemptions:
            request = self.waiting.next(new=self.admitting, long=len(long) < self.policy.max_long_prefills)
            if request is None:
                break
            if prompts <= (0 if request.is_long else kept_for_long):
                self._cut_by_budget = True
                break
            if self.policy.is_long(len(request.tokens)) and not request.is_long and self._has_become_long(request):
                continue
            if not self._admit(request, prompts):
                self._short_of_blocks = True
                break
            # A long prompt whose start is cached may turn out short.
            if self.policy.is_long(request.remaining) or prompts <= kept_for_long:
                long.append(request)
                kept_for_long = max(kept_for_long, 1)
            else:
                prompts -= self._schedule_prefill(works, request, prompts - kept_for_long)
        return prompts

    def _choose_lane(self, request: Request) -> None:
        """By the tokens that are not cached: a long conversation of which only the last turn is new is short."""
        request.is_long = self._would_be_long(request)
        request.rank = self.policy.rank(request.urgency, request.is_long, request.order)

    def _would_be_long(self, request: Request) -> bool:
        tokens = len(request.tokens)
        return self.policy.is_long(tokens) and self.policy.is_long(tokens - self.cache.cached_tokens(request))

    def _has_become_long(self, request: Request) -> bool:
        """Put a waiting request into the lane for long prompts if what was cached of it has been evicted."""
        if not self._would_be_long(request):
            return False
        self.waiting.remove(request)
        self._choose_lane(request)
        self.waiting.add(request)
        return True

    def _admit(self, request: Request, budget: int) -> bool:
        """Start a waiting request if its tokens' blocks are free; takes up cached blocks of its prefix."""
        if not self.cache.admit(request, min(budget, self.config.prefill_chunk_size or budget)):
            return False
        self.waiting.remove(request)
        if request.scheduled_at is None:
            request.scheduled_at = self._now
            request.cached_tokens = request.num_computed
        request.status = Status.RUNNING
        insort(self.running, request, key=_rank)
        return True

    def _grow(self, request: Request, tokens: int, works: list[Work]) -> bool:
        """Make room for so many tokens, preempting the hindmost while there is none; False: it runs no more."""
        while request.status is Status.RUNNING:
            if self.cache.grow(request, tokens):
                return True
            self._preempt_hindmost(works)
        return False

    def _preempt_hindmost(self, works: list[Work]) -> None:
        request = self.running.pop()
        self.cache.release(request)
        request.status = Status.WAITING
        request.is_long = self._would_be_long(request)  # Its rank stays.
        self.waiting.add(request)
        self._preemptions += 1
        if works:  # It may have been planned for this step already; its tokens of the budget are then left unused.
            works[:] = [work for work in works if work.request is not request]


def _rank(request: Request) -> Rank:
    return request.rank
