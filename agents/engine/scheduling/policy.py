"""What decides who is served first, who waits and who is refused; chosen when the engine starts.

Order is by virtual arrival time, a number fixed when a request is queued. The smaller it is, the earlier the request is
served and the later it is preempted:

    urgency = arrival                              first come, first served
    urgency = arrival + priority x aging           by priority; lower priorities are more urgent, as in vLLM
    rank    = urgency + patience for a long prompt     with the lane for long prompts switched on

A request is overtaken only by requests with a smaller rank, and later arrivals have ever larger ranks: one of priority
p and rank r is overtaken by nobody who arrives after r - aging x (most urgent priority). So nobody starves.
"""

from enum import StrEnum

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from controlplane.contract.errors import BadRequest

MOST_URGENT, LEAST_URGENT = -100, 100
"""Bounds of a request's priority."""

Rank = tuple[float, int]
"""Virtual arrival time in seconds of the engine's clock, then order of arrival."""


class SchedulingPolicy(StrEnum):
    """Which request is served first. Names are vLLM's."""

    FCFS = "fcfs"  # By arrival.
    PRIORITY = "priority"  # By the request's `priority`, which ages while it waits.


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Policy:
    """Checked on construction."""

    scheduling_policy: SchedulingPolicy = Field(
        default=SchedulingPolicy.FCFS, description="Who is served first; with priority, lower numbers are more urgent."
    )
    priority_aging_s: float = Field(
        default=10.0, ge=0.001, description="Seconds of waiting that are worth one level of priority."
    )
    long_prompt_threshold: int = Field(
        default=0,
        ge=0,
        description="Tokens of a prompt still to be computed above which it goes to the lane for long ones; 0: none.",
    )
    max_long_prefills: int = Field(default=1, ge=1, description="Long prompts that are computed at once.")
    long_prefill_share: float = Field(
        default=0.5, gt=0, le=1, description="Most of a step's token budget for long prompts beside other work."
    )
    long_patience_s: float = Field(
        default=5.0, ge=0, description="Short prompts that come up to so many seconds later may pass a long one."
    )
    max_waiting: int | None = Field(default=1024, ge=0, description="Waiting requests above which new ones get 429.")
    max_waiting_tokens: int | None = Field(
        default=None, ge=1, description="Tokens of waiting requests above which new ones get 429; default: no limit."
    )
    itl_target_s: float | None = Field(
        default=None,
        ge=0.0001,
        description="Adjust prompt tokens per step so that 99 % of the gaps between tokens are at most this.",
    )

    def check_priority(self, priority: int) -> None:
        """Raises `BadRequest` for a priority that this policy does not know."""
        if self.scheduling_policy == SchedulingPolicy.FCFS and priority != 0:
            raise BadRequest(
                "priority: this engine serves by arrival and takes no priority but 0; "
                "start it with scheduling_policy=priority or leave the field out",
                field="priority",
            )
        if not MOST_URGENT <= priority <= LEAST_URGENT:
            raise BadRequest(
                f"priority: {priority} is outside {MOST_URGENT} to {LEAST_URGENT}; lower is more urgent",
                field="priority",
                minimum=MOST_URGENT,
                maximum=LEAST_URGENT,
            )

    def is_long(self, tokens: int) -> bool:
        """Whether a prompt with so many tokens still to be computed belongs to the lane for long ones."""
        return 0 < self.long_prompt_threshold < tokens

    def urgency(self, arrived_at: float, priority: int) -> float:
        """Virtual arrival time without regard to length. Seconds."""
        if self.scheduling_policy == SchedulingPolicy.FCFS:
            return arrived_at
        return arrived_at + priority * self.priority_aging_s

    def rank(self, urgency: float, is_long: bool, order: int) -> Rank:
        """Where a request stands; `order` decides between equals."""
        return urgency + (self.long_patience_s if is_long else 0.0), order
