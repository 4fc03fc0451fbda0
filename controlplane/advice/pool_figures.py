"""What is known of a pool over a span, as values. Pure.

Guarantee: what nobody tells is None, never zero; shares lie within 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.metrics import DECODE, E2E, PREFILL, QUEUE
from controlplane.contract.planning.traffic_mix import TrafficMix
from controlplane.contract.step_limits import StepLimit

FEWEST_REQUESTS = 100
"""Below it p95 is one of the five slowest requests."""
IDLE_SHARE = 0.05
"""A pool that computes for less of its time, and keeps nobody waiting, is bound by nothing."""
LEAVE_WAITING = (StepLimit.KV_MEMORY, StepLimit.TOKEN_BUDGET, StepLimit.MAX_NUM_SEQS)
"""Limits by which a step leaves requests in the queue; `chunk` cuts one that runs."""


@dataclass(frozen=True)
class Step:
    """One step of the span that was measured whole."""

    requests: float = 0.0
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    nodes: int = 0


@dataclass(frozen=True)
class Readings:
    """Of a gauge, at the ends of windows of `width_s`. told: how many; above: how many of them above the level."""

    told: int
    above: int
    peak: float
    width_s: float

    @property
    def share(self) -> float:
        """Of the readings."""
        return self.above / self.told if self.told else 0.0


@dataclass(frozen=True)
class PoolFigures:
    """steps: whole ones in order, each `step_s` wide. seconds: of all requests, by stage (`queue`, `prefill`, `decode`,
    `e2e`). step_parts: seconds of all engine steps, by part. stalls: share of all gaps' time beyond the median gap.
    findable: share of prompt tokens that a cache without bounds would have found. waiting: above 0; running: above 1;
    kv: share of blocks in use. mix: of the newest requests. queries, hits, drafted, accepted: tokens. flops, moved
    (bytes): of one GPU of each node, added up. forwards: of each window the seconds of forward passes, FLOPs and bytes.
    """

    pool: str
    start: datetime
    end: datetime
    measured_s: float
    step_s: float
    requests: int = 0
    steps: Sequence[Step] = ()
    nodes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    stalls: float | None = None
    by_prompt: Mapping[str, float] = field(default_factory=dict)
    queries: float | None = None
    hits: float | None = None
    findable: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    preempted: float | None = None
    limits: Mapping[StepLimit, float] = field(default_factory=dict)
    step_parts: Mapping[str, float] = field(default_factory=dict)
    waiting: Readings | None = None
    running: Readings | None = None
    kv: Readings | None = None
    config: EngineConfig | None = None
    serving: Sequence[NodeView] = ()
    mix: TrafficMix | None = None
    flops: float | None = None
    moved: float | None = None
    forwards: Sequence[tuple[float, float, float]] = ()

    def stage(self, name: str) -> float | None:
        """A stage's share of all requests' end-to-end time."""
        whole = self.seconds.get(E2E.short, 0.0)
        if name not in self.seconds or whole <= 0:
            return None
        return min(max(self.seconds[name], 0.0) / whole, 1.0)

    @property
    def queue(self) -> float | None:
        return self.stage(QUEUE.short)

    @property
    def prefill(self) -> float | None:
        return self.stage(PREFILL.short)

    @property
    def decode(self) -> float | None:
        return self.stage(DECODE.short)

    @property
    def e2e_s(self) -> float | None:
        """Mean end to end."""
        whole = self.seconds.get(E2E.short)
        return None if whole is None or not self.requests else whole / self.requests

    @property
    def cached(self) -> float | None:
        """Share of prompt tokens found in the prefix cache."""
        if not self.queries:
            return None
        return min((self.hits or 0.0) / self.queries, 1.0)

    @property
    def kept(self) -> float | None:
        """Share of draft tokens that were accepted; None where none was proposed."""
        if not self.drafted:
            return None
        return min((self.accepted or 0.0) / self.drafted, 1.0)

    @property
    def node_time_s(self) -> float:
        """Time of all nodes that served."""
        return self.nodes * self.measured_s

    @property
    def busy_share(self) -> float | None:
        """Share of the nodes' time in which steps computed."""
        if not self.step_parts or self.node_time_s <= 0:
            return None
        return min(sum(self.step_parts.values()) / self.node_time_s, 1.0)

    @property
    def waiting_share(self) -> float | None:
        """Share of the nodes' time in which requests waited: a reading stands for its window."""
        if self.waiting is None or self.node_time_s <= 0:
            return None
        return min(self.waiting.above * self.waiting.width_s / self.node_time_s, 1.0)

    @property
    def queued(self) -> bool | None:
        """Whether anybody waited at all."""
        if self.waiting is None and not self.limits:
            return None
        return bool(self.waiting and self.waiting.above) or any(self.limits.get(one) for one in LEAVE_WAITING)

    def limit_share(self, *wanted: StepLimit) -> float | None:
        """Of all steps, those that these limits bound."""
        steps = sum(self.limits.values())
        return sum(self.limits.get(one, 0.0) for one in wanted) / steps if steps > 0 else None

    def queued_by(self, limit: StepLimit) -> float | None:
        """Of the steps that left requests waiting, those that this limit bound; None where nobody tells."""
        if not self.limits:
            return None
        waited = sum(self.limits.get(one, 0.0) for one in LEAVE_WAITING)
        return self.limits.get(limit, 0.0) / waited if waited > 0 else 0.0
