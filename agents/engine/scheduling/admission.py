"""Who is refused, so that those who are taken in are served in time: limits of the queue, deadlines, displacement.

Guarantee: every refusal is an error of the contract that says why, with the backlog at that moment and when to come
back; a request is given up only for one that is more urgent, and never once it has begun. Limits concern new requests:
preempted ones wait beyond them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.engine.scheduling.policy import MOST_URGENT, Policy, SchedulingPolicy
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.scheduling.throughput import Throughput
from agents.engine.scheduling.waiting_queue import WaitingQueue
from controlplane.contract.errors import DeadlineUnmet, Overloaded, TailwrightError

_SHORTEST_RETRY_S, _LONGEST_RETRY_S = 1.0, 300.0


@dataclass(frozen=True)
class Ended:
    """A request that the scheduler ended by itself. failure: why it has no answer; None: what it has is its answer."""

    request: Request
    reason: FinishReason
    failure: TailwrightError | None


@dataclass(frozen=True)
class Load:
    """What keeps a newcomer waiting besides the queue."""

    running: int
    seats: int
    """Requests that may run at once; those that do run when others wait for blocks only."""
    prompt_tokens: int
    """Of running requests, still to be computed."""
    tokens_per_step: int
    """Prompt tokens that a step may compute."""


@dataclass(frozen=True)
class Coming:
    """Requests on their way to the queue, as those who send them count them."""

    requests: int = 0
    tokens: int = 0
    least_urgent: int = MOST_URGENT
    """The least urgent priority since there were none."""

    def plus(self, tokens: int, priority: int) -> "Coming":
        return Coming(self.requests + 1, self.tokens + tokens, max(self.least_urgent, priority))

    def minus(self, tokens: int) -> "Coming":
        left = self.requests - 1
        return Coming(left, self.tokens - tokens, self.least_urgent if left else MOST_URGENT)


NOBODY = Coming()


class Admission:
    """Decides; who carries out is the scheduler."""

    def __init__(self, policy: Policy, queue: WaitingQueue, throughput: Throughput) -> None:
        self.policy, self.queue, self.throughput = policy, queue, throughput

    def estimated_wait_s(self, tokens: int, priority: int, load: Load, coming: Coming = NOBODY) -> float | None:
        """Seconds until a newcomer with this prompt would start; None: nothing was measured yet."""
        requests, waiting_tokens = self.queue.ahead(priority, tokens)
        return self.throughput.wait_s(
            requests + coming.requests,
            waiting_tokens + coming.tokens + load.prompt_tokens,
            running=load.running,
            seats=load.seats,
            tokens_per_step=load.tokens_per_step,
        )

    def check(
        self,
        tokens: int,
        priority: int,
        left_s: float | None,
        load: Load,
        coming: Coming = NOBODY,
    ) -> None:
        """Raises what a newcomer deserves before it is queued: `Overloaded` or `DeadlineUnmet`. Any thread may ask.

        tokens: of its prompt. left_s: until its deadline. One that may displace another passes; `make_room` decides.
        """
        wait_s = self.estimated_wait_s(tokens, priority, load, coming)
        if left_s is not None and (left_s <= 0 or (wait_s is not None and wait_s > left_s)):
            why = f"it would start in about {wait_s or 0.0:.1f} s and has {left_s:.1f} s left"
            raise self._deadline_unmet("deadline", wait_s, left_s, why, coming)
        over = self._over_limit(tokens, coming)
        by_priority = self.policy.scheduling_policy == SchedulingPolicy.PRIORITY
        may_displace = by_priority and (coming.least_urgent > priority or self.queue.has_less_urgent(priority))
        if over is not None and not may_displace:
            raise self._overloaded(*over, wait_s, coming)

    def make_room(self, newcomer: Request, load: Callable[[], Load]) -> list[Ended]:
        """Who ends so that the newcomer can be queued: nobody, less urgent ones that wait, or the newcomer itself.

        Those are taken out of the queue; the newcomer is not put in.
        """
        victims: list[Request] = []
        over = first = self._over_limit(len(newcomer.tokens))
        if first is None:
            return []
        while over is not None:
            victim = self.queue.least_urgent()
            if victim is None or victim.urgency <= newcomer.urgency:
                for spared in victims:
                    self.queue.add(spared)
                victims = [newcomer]
                break
            self.queue.remove(victim)
            victims.append(victim)
            over = self._over_limit(len(newcomer.tokens))
        (reason, limit), ended = first, []
        for victim in victims:
            wait_s = self.estimated_wait_s(len(victim.tokens), victim.priority, load())
            told = reason if victim is newcomer else "displaced"
            ended.append(Ended(victim, FinishReason.SHED, self._overloaded(told, limit, wait_s)))
        return ended

    def timed_out(self, request: Request, load: Load) -> Ended:
        """The end of a request whose deadline has passed: an error if it has given nothing yet."""
        if request.num_outputs:
            return Ended(request, FinishReason.TIMEOUT, None)
        assert request.deadline is not None
        allowed = request.deadline - request.arrived_at
        where = "waited for its turn" if request.scheduled_at is None else "had no token yet"
        wait_s = self.estimated_wait_s(len(request.tokens), request.priority, load)
        failure = self._deadline_unmet("timed_out", wait_s, allowed, f"after {allowed:.1f} s it still {where}")
        return Ended(request, FinishReason.TIMEOUT, failure)

    def _over_limit(self, tokens: int, coming: Coming = NOBODY) -> tuple[str, int] | None:
        """(reason, limit) when a newcomer with so many tokens would be too much; None: it may wait.

        A prompt that alone passes the token limit may wait when nobody else does; else it could never be served.
        """
        policy = self.policy
        waiting, waiting_tokens = self._backlog(coming)
        if policy.max_waiting is not None and waiting >= policy.max_waiting:
            return "queue_full", policy.max_waiting
        if policy.max_waiting_tokens is not None and waiting and waiting_tokens + tokens > policy.max_waiting_tokens:
            return "queued_tokens", policy.max_waiting_tokens
        return None

    def _backlog(self, coming: Coming) -> tuple[int, int]:
        return len(self.queue) + coming.requests, self.queue.tokens + coming.tokens

    def _overloaded(self, reason: str, limit: int, wait_s: float | None, coming: Coming = NOBODY) -> Overloaded:
        waiting, tokens = self._backlog(coming)
        message = {
            "queue_full": f"{waiting} requests wait already, max_waiting is {limit}",
            "queued_tokens": f"{tokens} tokens wait already, max_waiting_tokens is {limit}",
            "displaced": "more urgent requests came while it waited and the queue is full",
        }[reason]
        retry_after_s = _retry_after_s(wait_s)
        return Overloaded(
            f"{message}; try again in {retry_after_s:.0f} s",
            retry_after_s=retry_after_s,
            degraded=self._degraded(reason, wait_s, limit, coming),
        )

    def _deadline_unmet(
        self, reason: str, wait_s: float | None, left_s: float, why: str, coming: Coming = NOBODY
    ) -> DeadlineUnmet:
        retry_after_s = _retry_after_s(wait_s)
        return DeadlineUnmet(
            f"timeout_s: the deadline cannot be met: {why}; try again in {retry_after_s:.0f} s or allow more time",
            field="timeout_s",
            retry_after_s=retry_after_s,
            degraded=self._degraded(reason, wait_s, left_s, coming),
        )

    def _degraded(self, reason: str, wait_s: float | None, limit: float, coming: Coming) -> dict[str, Any]:
        waiting, waiting_tokens = self._backlog(coming)
        return {
            "reason": reason,
            "waiting": waiting,
            "waiting_tokens": waiting_tokens,
            "estimated_wait_s": None if wait_s is None else round(wait_s, 3),
            "limit": limit,
        }


def _retry_after_s(wait_s: float | None) -> float:
    """When the present backlog is worked off, at the speed measured; between a second and five minutes."""
    return min(max(wait_s or 0.0, _SHORTEST_RETRY_S), _LONGEST_RETRY_S)
