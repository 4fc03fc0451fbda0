"""What decides who is served first, who waits and who is refused; chosen when the engine starts.

Order is by virtual arrival time, a number fixed when a request is queued. The smaller it is, the earlier the request is
served and the later it is preempted:

    urgency = arrival                              first come, first served
    urgency = arrival + priority x aging           by priority; lower priorities are more urgent, as in vLLM
    rank    = urgency + patience for a long prompt     with the lane for long prompts switched on

A request is overtaken only by requests with a smaller rank, and later arrivals have ever larger ranks: one of priority
p and rank r is overtaken by nobody who arrives after r - aging x (most urgent priority). So nobody starves.
"""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.contract.errors import BadRequest

MOST_URGENT, LEAST_URGENT = -100, 100
"""Bounds of a request's priority."""

Rank = tuple[float, int]
"""Virtual arrival time in seconds of the engine's clock, then order of arrival."""


class SchedulingPolicy(StrEnum):
    """Which request is served first. Names are vLLM's."""

    FCFS = "fcfs"  # By arrival.
    PRIORITY = "priority"  # By the request's `priority`, which ages while it waits.


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Checked on construction: raises `BadRequest` that names the option."""

    scheduling_policy: str = SchedulingPolicy.FCFS
    priority_aging_s: float = 10.0
    """Seconds of waiting that are worth one level of priority."""
    long_prompt_threshold: int = 0
    """Tokens of a prompt still to be computed above which it goes to the lane for long prompts; 0: no such lane."""
    max_long_prefills: int = 1
    """Long prompts that are computed at once."""
    long_prefill_share: float = 0.5
    """Most of a step's token budget that long prompts may take together while other requests are in the step."""
    long_patience_s: float = 5.0
    """A long prompt lets pass short ones that arrive up to so much later."""
    max_waiting: int | None = 1024
    """Waiting requests above which one of them is refused; None: no limit."""
    max_waiting_tokens: int | None = None
    """Tokens of waiting requests above which one of them is refused; None: no limit."""
    itl_target_s: float | None = None
    """99 % of the gaps between tokens shall be at most this; None: the token budget of a step is not adjusted."""

    def __post_init__(self) -> None:
        if self.scheduling_policy not in tuple(SchedulingPolicy):
            raise BadRequest(
                f"scheduling_policy: {self.scheduling_policy!r} is not one of {', '.join(SchedulingPolicy)}",
                field="scheduling_policy",
            )
        for name, least in (
            ("priority_aging_s", 0.001),
            ("long_prompt_threshold", 0),
            ("max_long_prefills", 1),
            ("long_patience_s", 0),
            ("max_waiting", 0),
            ("max_waiting_tokens", 1),
            ("itl_target_s", 0.0001),
        ):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise BadRequest(f"{name}: must be at least {least}, got {value}", field=name)
        if not 0 < self.long_prefill_share <= 1:
            raise BadRequest(
                f"long_prefill_share: must be above 0 and at most 1, got {self.long_prefill_share}",
                field="long_prefill_share",
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
