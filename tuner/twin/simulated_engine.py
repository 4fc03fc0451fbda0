"""One engine without its model: the embedded engine's own scheduler and KV cache, over a clock that steps move.

Guarantee: what each step computes is decided by `agents.engine.scheduling`, unchanged, from the same state as in a real
engine that was given the same arrivals and whose steps took the same time. Every request that fits ends with all its
tokens, each counted once; one that can never fit, or that the queue refuses, is told as refused.

Where nothing but decodes runs and nothing can join them, steps differ in nothing that is decided: as many as there are
until a request ends, one arrives or blocks run out are taken at once, for the same sum of seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.policy import Policy
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.step_plan import StepPlan
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.step_limits import StepLimit
from tuner.twin.assumed_drafts import AssumedDrafter, Drafts
from tuner.twin.step_terms import StepCost, Terms, terms_of

_LONGEST_JUMP = 4096


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


@dataclass(slots=True)
class Story:
    """What became of one arrival. Seconds of the engine's clock; None: it did not come to that."""

    arrived_s: float
    scheduled_s: float | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    outputs: int = 0
    cached_tokens: int = 0
    refused: bool = False


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
        """`seconds_of` and `watcher` see every step, so that none are taken at once."""
        pool = BlockPool(shape.num_blocks, shape.block_size)
        cache = KvCache(pool, shape.groups, shape.prefix_caching)
        self.scheduler = Scheduler(cache, config, shape.policy)
        self.gaps = Gaps()
        self.steps = 0
        self.most_running = 0
        self.busy_s = 0.0
        self._pool, self._cost, self._drafter = pool, cost, AssumedDrafter(drafts or Drafts())
        self._seconds_of, self._watcher = seconds_of, watcher
        self._jumps = seconds_of is None and watcher is None and all(group.window is None for group in shape.groups)
        self._stories: dict[Request, tuple[int, Story]] = {}
        self._delivered: dict[Request, float] = {}
        self._now = 0.0
        self._nobody_fits = False  # Whoever is next in the queue found too few blocks free, and none came back since.

    def run(self, arrivals: Iterable[Arrival]) -> list[Story]:
        """Until all have ended; a story for each, in their order, which is that of their times."""
        scheduler = self.scheduler
        stories: list[Story] = []
        coming = iter(arrivals)
        following = next(coming, None)
        while following is not None or scheduler.has_work:
            if following is not None and not scheduler.has_work:
                self._now = max(self._now, following.at_s)
            while following is not None and following.at_s <= self._now:
                stories.append(self._add(len(stories), following))
                following = next(coming, None)
            if scheduler.has_work:
                until_s = float("inf") if following is None else following.at_s
                if not (self._jumps and self._jump(until_s)):
                    self._step()
        return stories

    def _add(self, number: int, arrival: Arrival) -> Story:
        story = Story(arrival.at_s)
        params = SamplingParams(max(1, arrival.outputs), seed=arrival.seed)
        request = Request(str(number), arrival.prompt(), params, arrived_at=arrival.at_s)
        if not self.scheduler.fits(request.most_tokens):
            story.refused = True
            return story
        self._stories[request] = number, story
        for ended in self.scheduler.add(request):
            _, other = self._stories.pop(ended.request)
            other.refused = True
        return story

    def _step(self) -> None:
        scheduler = self.scheduler
        plan = scheduler.schedule(self._drafter, self._now)
        assert plan.works, "the foremost request advances in every step"
        seconds = self._cost.seconds(terms_of(plan)) if self._seconds_of is None else self._seconds_of(plan)
        if self._watcher is not None:
            self._watcher(plan, self._now, seconds)
        self._now += seconds
        self.busy_s += seconds
        self.steps += 1
        self.most_running = max(self.most_running, len(scheduler.running))
        short = (
            plan.limit is StepLimit.KV_MEMORY and not plan.preemptions and not scheduler.policy.long_prompt_threshold
        )
        ended = False
        for work in plan.works:
            request = work.request
            if not work.samples:
                scheduler.commit(work, ())
                continue
            number, story = self._stories[request]
            tokens = [-1 - number] * (1 + self._drafter.accepted(work))
            _, reason = scheduler.commit(work, tokens)
            self._deliver(request, story)
            if reason:
                ended = True
                story.ended_s, story.outputs = self._now, request.num_outputs
                del self._stories[request], self._delivered[request]
        self._nobody_fits = short and not ended
        scheduler.observe(plan, seconds)

    def _deliver(self, request: Request, story: Story) -> None:
        before = self._delivered.get(request)
        self._delivered[request] = self._now
        if before is None:
            story.scheduled_s, story.first_token_s = request.scheduled_at, self._now
            story.cached_tokens = request.cached_tokens
        else:
            self.gaps.add(self._now - before, 1)

    def _jump(self, until_s: float) -> bool:
        """Take several steps of the same decodes at once; False where that is not certain to decide the same."""
        scheduler = self.scheduler
        running, config = scheduler.running, scheduler.config
        rows = len(running)
        seats_left = config.max_num_seqs - rows
        if not rows or rows > config.max_num_batched_tokens or seats_left < 0 or config.draft_length(rows):
            return False
        # Whoever waits must be kept out by want of seats, or by want of blocks, of which there are ever fewer.
        if len(scheduler.waiting) and seats_left and not self._nobody_fits:
            return False
        left = min(request.most_tokens - len(request.tokens) for request in running) - 1
        if left < 2 or any(request.remaining != 1 or request not in self._delivered for request in running):
            return False
        context = sum(len(request.tokens) for request in running)
        count = self._steps_until(until_s, min(left, _LONGEST_JUMP), rows, context)
        while count > 1 and self._blocks_wanted(count) > self._pool.num_free:
            count //= 2
        if count < 2:
            return False
        seconds = self._seconds(count, rows, context)
        late = 0
        for request in running:
            grown = scheduler.cache.grow(request, len(request.tokens) + count - 1)
            assert grown
            number, _ = self._stories[request]
            request.tokens.extend([-1 - number] * count)
            request.num_computed += count
            scheduler.cache.computed(request)
            if (since_s := self._now - self._delivered[request]) > 0.0:  # The last step left it out.
                self.gaps.add(since_s + seconds / count, 1)
                late += 1
            self._delivered[request] = self._now + seconds
        self.gaps.add(seconds / count, rows * count - late)
        self._now += seconds
        self.busy_s += seconds
        self.steps += count
        return True

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
        terms: Terms = (count, rows * count, rows * count, rows * count, contexts, 0.0)
        return self._cost.seconds(terms)

    def _blocks_wanted(self, count: int) -> int:
        size, groups = self._pool.block_size, len(self.scheduler.cache.groups)
        places = sum(
            max(0, -(-(len(request.tokens) + count - 1) // size) - request.covered // size)
            for request in self.scheduler.running
        )
        return places * groups
