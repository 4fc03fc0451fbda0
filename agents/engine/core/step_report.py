"""One step as the event log tells it: its parts' durations, what it computed, and how its drafts fared."""

import time
from collections.abc import Sequence
from typing import Any

from agents.engine.core.step_work import StepWork
from agents.engine.request.timing import monotonic
from agents.engine.scheduling.step_limit import limit_of_step
from agents.engine.scheduling.step_plan import StepPlan


class StepClock:
    """Laps of one step: each `lap` ends the part that began where the last one ended. Seconds."""

    __slots__ = ("_mark", "parts", "started")

    def __init__(self) -> None:
        self.started = self._mark = monotonic()
        self.parts: dict[str, float] = {}

    @property
    def ended(self) -> float:
        """When the last lap ended."""
        return self._mark

    def lap(self, part: str) -> None:
        now = monotonic()
        self.parts[part] = now - self._mark
        self._mark = now


def step_event(
    revision: int,
    clock: StepClock,
    attention: float | None,
    plan: StepPlan,
    accepted: Sequence[int],
    state: tuple[int, int, float],
    work: StepWork,
) -> dict[str, Any]:
    """See `controlplane.contract.reports.engine_event.StepEvent`. accepted: of each draft.

    state: running, waiting and the share of KV blocks held, as the step leaves them.
    """
    lengths = [len(work.drafts) for work in plan.works if work.drafts] if accepted else []
    drafted, taken = sum(lengths), sum(accepted)
    places = (
        {} if not drafted else {"drafted_per_position": reached(lengths), "accepted_per_position": reached(accepted)}
    )
    return {
        "kind": "step",
        "time": time.time(),
        "revision": revision,
        **clock.parts,
        "attention": attention,
        "running": state[0],
        "waiting": state[1],
        "kv_usage": state[2],
        "batched_tokens": plan.batched_tokens,
        "draft_tokens": drafted,
        "accepted_tokens": taken,
        **places,
        "preemptions": plan.preemptions,
        "flops": work.flops,
        "read_bytes": work.read_bytes,
        "write_bytes": work.write_bytes,
        "limit": limit_of_step(plan.limit, drafted - taken).value,
    }


def reached(lengths: Sequence[int]) -> list[int]:
    """Entry i: how many of them are longer than i."""
    return [sum([length > place for length in lengths]) for place in range(max(lengths, default=0))]
