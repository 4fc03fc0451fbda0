"""Looks at vLLM's scheduler before and after each step, and counts what bound it.

What is read (vLLM 0.32, v1/core/sched/scheduler.py) and why it tells:
- A step runs in one thread with everything that changes the queues. So more wait after `schedule()` than before only
  because requests were preempted, which is for want of KV blocks alone.
- A waiting request that is refused its blocks leaves no mark. So `KVCacheManager.allocate_slots` is listened to, but
  only in a step that begins with somebody waiting and a seat free, the only one in which that can happen.
- `deferred_waiting` (before 0.31 `skipped_waiting`) are those that no limit keeps waiting: a grammar in compilation,
  a KV transfer under way. Older releases do not tell them from the others: there somebody who has a seat, blocks and
  budget and waits is nobody's limit.
- `max_num_batched_tokens` less a slot for each request's drafter input bounds the step beside max_num_scheduled_tokens.

Guarantee: a step that computed something is counted once, after it was computed, or not at all where vLLM held work
back; cost without anybody waiting: one comparison of numbers for each step, and none for each request. What does not
fit raises here, and `scheduler.py` then goes on without.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from tailwright_vllm.step_limit import Left, limit_of_step, planned_limit

_UNDER_WAY = 64
"""Steps planned and not computed yet; vLLM has as many as there are pipeline stages, and one with async scheduling."""


class StepWatch:
    """Of one scheduler. `count` gets each step's limit. Raises AttributeError or the like on another vLLM's."""

    def __init__(self, scheduler: Any, count: Callable[[str], None]) -> None:
        self._scheduler, self._count = scheduler, count
        self._config = scheduler.scheduler_config
        self._manager = scheduler.kv_cache_manager
        self._allocate = self._manager.allocate_slots
        speculative = scheduler.vllm_config.speculative_config
        self._draft_slots = int(getattr(speculative, "max_num_new_slots_for_drafting", 0))
        self._planned: deque[tuple[Any, str]] = deque(maxlen=_UNDER_WAY)
        self._waiting = 0
        self._refused = False
        self.before()
        self.listen_no_more()

    def before(self) -> None:
        """A step begins."""
        running, self._waiting = self._scheduler.get_request_counts()
        self._refused = False
        if self._waiting and self._seat_free(running):
            self._manager.allocate_slots = self._listen

    def listen_no_more(self) -> None:
        """A step was planned, or vLLM raised."""
        if "allocate_slots" in vars(self._manager):
            del self._manager.allocate_slots

    def planned(self, output: Any, throttled: bool) -> None:
        """A step was planned. `throttled`: vLLM was asked to compute no prompts in it."""
        if not output.total_num_scheduled_tokens:
            return
        limit = planned_limit(self._left(output, throttled))
        if limit is not None:
            self._planned.append((output, limit))

    def computed(self, output: Any, answers: Any) -> None:
        """A planned step was computed: `answers` is what `update_from_output` gave for it."""
        if not any(one is output for one, _ in self._planned):
            return
        one, limit = self._planned.popleft()
        while one is not output:  # It was never computed.
            one, limit = self._planned.popleft()
        self._count(limit_of_step(limit, _rejected(answers)))

    def _left(self, output: Any, throttled: bool) -> Left:
        scheduler = self._scheduler
        scheduled = output.num_scheduled_tokens
        total = output.total_num_scheduled_tokens
        running, waiting = scheduler.get_request_counts()
        deferred = self._deferred()
        slots = self._draft_slots
        room = self._config.max_num_batched_tokens - total - slots * len(scheduled)
        spent = total >= scheduler.max_num_scheduled_tokens or room <= slots
        chunk = self._config.long_prefill_token_threshold
        unfinished = list[Any]()
        # Without either nothing can have been cut, and nobody is looked at: so it is while all only decode.
        if spent or (chunk and max(scheduled.values()) >= chunk):
            unfinished = [one for one in scheduler.running if one.num_computed_tokens < one.num_tokens]
        return Left(
            no_blocks=self._refused or waiting > self._waiting,
            budget_spent=spent,
            seat_free=self._seat_free(running),
            waits=waiting > (deferred or 0),
            cut=bool(unfinished) or len(scheduled) < running,
            cut_to_chunk=bool(chunk) and any(scheduled.get(one.request_id, 0) >= chunk for one in unfinished),
            held_back=throttled or deferred is None or bool(getattr(scheduler, "_pause_state", 0)),
        )

    def _seat_free(self, running: int) -> bool:
        scheduler = self._scheduler
        most = getattr(scheduler, "max_num_active_reqs", None)  # Before 0.31 there is one number for both.
        seats = scheduler.max_num_running_reqs if most is None else most
        # A streaming session that waits for its client keeps its seat.
        return bool(running + getattr(scheduler, "num_waiting_for_streaming_input", 0) < seats)

    def _deferred(self) -> "int | None":
        for name in ("deferred_waiting", "skipped_waiting"):
            deferred = getattr(self._scheduler, name, None)
            if deferred is not None:
                return len(deferred)
        return None

    def _listen(self, *args: Any, **values: Any) -> Any:
        blocks = self._allocate(*args, **values)
        if blocks is None:
            self._refused = True
        return blocks


def _rejected(answers: Any) -> int:
    """Draft tokens that were not accepted; vLLM tells them to one of its server processes, so once."""
    for answer in answers.values():
        stats = answer.scheduler_stats
        if stats is not None:
            drafts = stats.spec_decoding_stats
            return 0 if drafts is None else int(drafts.num_draft_tokens - drafts.num_accepted_tokens)
    return 0
