"""One engine without its model: the embedded engine's own scheduler and KV cache, over a clock that steps move.

Guarantee: what each step computes is decided by `agents.engine.scheduling`, unchanged, from the same state as in a real
engine that was given the same arrivals and whose steps took the same time. Every request that fits ends with all its
tokens, each counted once; one that can never fit, or that the queue refuses, is told as refused.

A decode gets one token in every step, whatever is decided for others, as long as tokens and blocks suffice for all
rows. Such rows are set apart (steady_decodes.py), and the scheduler plans for the others with the seats and tokens that
they leave; so a step costs what its prompts cost. A row is looked at only when it needs a block, fills one or ends;
steps in which none does and nobody else runs are taken at once, for the same sum of seconds. Where it is not certain to
be the same, the scheduler has all rows back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.policy import Policy, Rank
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.step_plan import StepPlan, Work
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.step_limits import StepLimit
from tuner.twin.assumed_drafts import AssumedDrafter, Drafts
from tuner.twin.costs.step_terms import StepCost, Terms, terms_of, with_decodes
from tuner.twin.simulated_request import SimulatedRequest, Story
from tuner.twin.steady_decodes import SteadyDecodes, idle_steps

__all__ = ["Arrival", "EngineShape", "SimulatedEngine", "Story"]


@dataclass(frozen=True)
class EngineShape:
    """What a node's engine is besides its knobs. num_blocks and block_size: of its KV cache."""

    num_blocks: int
    block_size: int = 16
    groups: tuple[CacheGroup, ...] = (CacheGroup((0,)),)
    prefix_caching: bool = True
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True)
class Arrival:
    """A request on its way. prompt: makes its token ids, when it arrives; seed: of its chances. Seconds."""

    at_s: float
    prompt: Callable[[], Sequence[int]]
    outputs: int
    seed: int = 0


@dataclass
class Gaps:
    """Time between the deliveries of requests, seconds: each value as many times as its weight says."""

    seconds: list[float] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def add(self, seconds: float, weight: int) -> None:
        self.seconds.append(seconds)
        self.weights.append(weight)


Watcher = Callable[[StepPlan, float, float], None]
"""Is shown each plan with its start and its seconds, before anything of it is committed."""


class SimulatedEngine:
    """Runs once. cost: seconds of a step by its terms; or of a plan, where steps are known (`seconds_of`)."""

    def __init__(
        self,
        shape: EngineShape,
        config: EngineConfig,
        cost: StepCost,
        *,
        drafts: Drafts | None = None,
        seconds_of: Callable[[StepPlan], float] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`seconds_of` and `watcher` see every step and every row, so that none are steady."""
        pool = BlockPool(shape.num_blocks, shape.block_size)
        cache = KvCache(pool, shape.groups, shape.prefix_caching)
        self.scheduler = Scheduler(cache, config, shape.policy)
        self.gaps = Gaps()
        self.steps = 0
        self.most_running = 0
        self.busy_s = 0.0
        self._pool, self._cost, self._config = pool, cost, config
        self._drafter = AssumedDrafter(drafts or Drafts())
        self._seconds_of, self._watcher = seconds_of, watcher
        self._steady = SteadyDecodes()
        self._may_be_steady = (
            seconds_of is None
            and watcher is None
            and not self._drafter.has_any
            and all(group.window is None for group in shape.groups)
            and not shape.policy.long_prompt_threshold
            and shape.policy.itl_target_s is None
        )
        self._params: dict[tuple[int, int], SamplingParams] = {}
        self._left_over: dict[int, EngineConfig] = {0: config}  # By the number of steady rows.
        self._now = 0.0
        self._due: list[SimulatedRequest] = []  # Of the steady ones, in the step being planned: by rank.
        self._nobody_fits = False  # Whoever is next in the queue found too few blocks free, and nothing has changed.

    @property
    def steady_rows(self) -> int:
        """Running requests that the scheduler does not see now."""
        return self._steady.rows + len(self._due)

    def run(self, arrivals: Iterable[Arrival]) -> list[Story]:
        """Until all have ended; a story for each, in their order, which is that of their times."""
        scheduler, steady = self.scheduler, self._steady
        stories: list[Story] = []
        coming = iter(arrivals)
        following = next(coming, None)
        while True:
            has_work = steady.rows > 0 or scheduler.has_work
            if not has_work:
                if following is None:
                    return stories
                self._now = max(self._now, following.at_s)
            while following is not None and following.at_s <= self._now:
                stories.append(self._add(len(stories), following))
                following = next(coming, None)
            until_s = float("inf") if following is None else following.at_s
            if has_work or scheduler.has_work:
                self._advance(until_s)

    def _add(self, number: int, arrival: Arrival) -> Story:
        story = Story(arrival.at_s)
        params = self._params_of(max(1, arrival.outputs), arrival.seed if self._drafter.has_any else 0)
        request = SimulatedRequest(number, arrival.prompt(), params, story)
        if not self.scheduler.fits(request.most_tokens):
            story.refused = True
            return story
        for ended in self.scheduler.add(request):
            _simulated(ended.request).story.refused = True
        return story

    def _params_of(self, outputs: int, seed: int) -> SamplingParams:
        """Equal ones are made once."""
        params = self._params.get((outputs, seed))
        if params is None:
            params = self._params[outputs, seed] = SamplingParams(outputs, seed=seed)
        return params

    def _advance(self, until_s: float) -> None:
        """One step; or as many as differ in nothing, of those that begin before that time."""
        steady, running = self._steady, self.scheduler.running
        if steady.rows:
            if steady.due_at <= self.steps:
                self._due = steady.take(self.steps, self._now)
            elif not running and self._nobody_starts():
                self._repeat(until_s)
                return
            if not self._all_rows_have_room():
                self._due += steady.take_all(self.steps, self._now)
                self._bring_back()
            elif self._due and any([len(request.tokens) == request.num_computed + 1 for request in running]):
                self._bring_back()  # Decodes get their blocks by rank.
        self._step()

    def _bring_back(self) -> None:
        """The due rows, to the scheduler."""
        running = self.scheduler.running
        running += self._due
        running.sort(key=_rank)
        self._due = []

    def _nobody_starts(self) -> bool:
        """Whoever waits is kept out by want of seats, or by want of blocks, of which there are ever fewer."""
        return not len(self.scheduler.waiting) or self._nobody_fits or self.steady_rows >= self._config.max_num_seqs

    def _all_rows_have_room(self) -> bool:
        """Whether every row surely gets its token, so that none of the steady ones is left out or preempted, and those
        that are due may be given theirs before anybody else is."""
        due, running = self._due, self.scheduler.running
        groups, free = len(self.scheduler.cache.groups), self._pool.num_free
        if self.steady_rows + len(running) >= self._config.max_num_batched_tokens:
            return False
        if (len(due) + len(running)) * groups <= free:
            return True
        return sum([len(request.tokens) > request.covered for request in due + running]) * groups <= free

    def _step(self) -> None:
        """As the scheduler plans it. Steady rows go without it, due or not: their tokens and seats are taken off what
        it has."""
        scheduler, steady, due = self.scheduler, self._steady, self._due
        running, rows = scheduler.running, self.steady_rows
        works = [self._decode(request) for request in due]
        plan = _NOTHING
        stays = self._nobody_fits
        if running or not rows or not self._nobody_starts():
            scheduler.config = self._config_beside(rows)
            plan = scheduler.schedule(self._drafter, self._now)
            assert plan.works or rows, "the foremost request advances in every step"
            # Whoever did not fit may fit once a block comes back, or is filled that begins as he does.
            lane = scheduler.policy.long_prompt_threshold
            stays = plan.limit is StepLimit.KV_MEMORY and not plan.preemptions and not lane
        context = steady.context + sum([len(request.tokens) for request in due])
        terms = with_decodes(terms_of(plan), rows, context)
        seconds = self._cost.seconds(terms) if self._seconds_of is None else self._seconds_of(plan)
        if self._watcher is not None:
            self._watcher(plan, self._now, seconds)
        self._now += seconds
        self.busy_s += seconds
        self.steps += 1
        self.most_running = max(self.most_running, rows + len(running))
        if steady.rows:
            self.gaps.add(seconds, steady.rows)
            steady.stepped(1)
        running += due
        self._due = []
        self._commit(works + plan.works, stays)
        if not self._may_be_steady:  # Else it steers nothing.
            scheduler.observe(plan, seconds)

    def _decode(self, request: SimulatedRequest) -> Work:
        """As the scheduler would plan it: decodes get their blocks by rank, before any prompt does."""
        length = len(request.tokens)
        grown = self.scheduler.cache.grow(request, length)
        assert grown, "there was room for all"
        return Work(request, length - 1, 1)

    def _commit(self, works: list[Work], stays: bool) -> None:
        """stays: whether whoever is next in the queue finds too few blocks if none comes back."""
        scheduler, steady = self.scheduler, self._steady
        running = scheduler.running
        may_be_steady = self._may_be_steady and steady.rows + len(running) < self._config.max_num_batched_tokens
        for work in works:
            request = work.request
            assert isinstance(request, SimulatedRequest)
            if not work.samples:
                scheduler.commit(work, ())
                continue
            filled = request.registered_blocks
            _, reason = scheduler.commit(work, [0] * (1 + self._drafter.accepted(work)))
            self._deliver(request)
            if reason:
                request.story.ended_s, request.story.outputs = self._now, request.num_outputs
            elif may_be_steady:
                running.remove(request)
                steady.add(request, self.steps, idle_steps(request))
            stays = stays and not reason and request.registered_blocks == filled
        if self._may_be_steady and not may_be_steady:
            running.sort(key=_rank)
        self._nobody_fits = stays

    def _deliver(self, request: SimulatedRequest) -> None:
        if request.delivered_s is None:
            story = request.story
            story.scheduled_s, story.first_token_s = request.scheduled_at, self._now
            story.cached_tokens = request.cached_tokens
        else:
            self.gaps.add(self._now - request.delivered_s, 1)
        request.delivered_s = self._now

    def _repeat(self, until_s: float) -> None:
        """Steps of the steady rows alone, up to the first that begins at that time or has somebody due."""
        steady = self._steady
        rows, context = steady.rows, steady.context
        count = self._steps_until(until_s, steady.due_at - self.steps, rows, context)
        seconds = self._seconds(count, rows, context)
        self.gaps.add(seconds / count, rows * count)
        self._now += seconds
        self.busy_s += seconds
        self.steps += count
        steady.stepped(count)

    def _steps_until(self, until_s: float, most: int, rows: int, context: int) -> int:
        """How many of the next `most` steps begin before that time."""
        if self._now + self._seconds(most - 1, rows, context) < until_s:
            return most
        low, high = 1, most  # The first begins now; the last begins too late.
        while high - low > 1:
            middle = (low + high) // 2
            if self._now + self._seconds(middle - 1, rows, context) < until_s:
                low = middle
            else:
                high = middle
        return low

    def _seconds(self, count: int, rows: int, context: int) -> float:
        """Of so many steps of `rows` decodes with `context` tokens at first: each adds a token to every row."""
        contexts = count * context + rows * count * (count - 1) / 2
        terms: Terms = (count, rows * count, 0.0, rows * count, contexts, 0.0)
        return self._cost.seconds(terms)

    def _config_beside(self, rows: int) -> EngineConfig:
        """What so many steady rows leave of each step's tokens and of the seats."""
        found = self._left_over.get(rows)
        if found is None:
            tokens, seats = self._config.max_num_batched_tokens - rows, self._config.max_num_seqs - rows
            found = self._config.model_copy(update={"max_num_batched_tokens": tokens, "max_num_seqs": seats})
            self._left_over[rows] = found
        return found


_NOTHING = StepPlan([], 0, 0, StepLimit.NO_WORK)
"""What the scheduler would plan where nobody runs that it sees, and nobody starts."""


def _rank(request: Request) -> Rank:
    return request.rank


def _simulated(request: Request) -> SimulatedRequest:
    assert isinstance(request, SimulatedRequest)
    return request
