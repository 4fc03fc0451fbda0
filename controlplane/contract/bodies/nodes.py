"""The fleet as the API shows it: nodes, what they should run, and what they truly run."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.knob_schema import VALUES
from controlplane.contract.knobs import LARGEST_REPORTED, ChangeClass
from controlplane.contract.reports.declared_knobs import MOST_DECLARED, DeclaredKnob
from controlplane.contract.reports.model_shape import ModelShape
from controlplane.contract.reports.node_memory import NodeMemory

MOST_ENTRIES = 64
"""Of each part of an effective configuration."""

Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=0, le=LARGEST_REPORTED)]
Source = Annotated[str, Field(max_length=500)]
Format = Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")]
Named = Annotated[str, Field(max_length=64)]


class NodeRole(StrEnum):
    """What a node is for: `serving` takes production traffic, `trial` is for studies."""

    SERVING = "serving"  # Takes production traffic; changed by rollouts only.
    TRIAL = "trial"  # Takes no production traffic; the tuner may set it directly.


class ConfigStatus(StrEnum):
    """OpAMP RemoteConfigStatuses."""

    UNSET = "unset"
    APPLYING = "applying"
    APPLIED = "applied"
    FAILED = "failed"


class ChangeCost(BaseModel):
    """What changes of one class have cost on a node, as its agent measured them. Seconds."""

    count: int = Field(ge=0, le=LARGEST_REPORTED, description="how many such changes were measured")
    last_s: Cost = Field(description="seconds from the agent's receipt until the last one was in force")
    mean_s: Cost = Field(description="mean seconds from the agent's receipt until it was in force")
    unavailable_s: Cost = Field(
        default=0.0,
        description="mean seconds in which requests had to wait; 0 for a live change or a standby's takeover",
    )
    warm_ups: int = Field(
        default=0,
        ge=0,
        le=LARGEST_REPORTED,
        description="after how many of them the engine's warm-up could be measured",
    )
    warm_up_s: Cost = Field(
        default=0.0, description="mean seconds after that until the engine's steps were as quick as later, 30 at most"
    )
    capacity_lost_s: Cost = Field(
        default=0.0,
        description="mean seconds of the engine's full capacity that a change cost: waiting, and slow steps",
    )


class EffectiveConfig(BaseModel):
    """Read back from the engine, knob by knob, never echoed from the request.

    A knob that cannot be read is left out. `change_classes` say what a change costs on this node; from `live_floors` up
    to `live_limits` a knob of class live needs nothing more, beyond these a restart, and above `limits` it cannot go
    here at all.
    """

    revision: int = Field(
        ge=0, lt=2**63, description="the revision the engine says it runs; 0 when it was never given one"
    )
    knobs: dict[Named, Any] = Field(
        max_length=MOST_ENTRIES, description="what the engine runs, by knob; one that cannot be read is left out"
    )
    sources: dict[Named, Source] = Field(default={}, max_length=MOST_ENTRIES, description="how each knob was read")
    change_classes: dict[Named, ChangeClass] = Field(
        default={},
        max_length=MOST_ENTRIES,
        description="what a change of each knob takes on this node; empty: as usual for its backend",
    )
    live_limits: dict[Named, Limit] = Field(
        default={},
        max_length=MOST_ENTRIES,
        description="up to here a live knob needs nothing more, above it a restart",
    )
    live_floors: dict[Named, Limit] = Field(
        default={},
        max_length=MOST_ENTRIES,
        description="down to here a live knob needs nothing more, below it (but for 0, which is off) a restart",
    )
    limits: dict[Named, Limit] = Field(
        default={}, max_length=MOST_ENTRIES, description="above this a knob cannot go on this node"
    )
    formats: list[Format] = Field(
        default=[], max_length=MOST_ENTRIES, description="weight formats the node can be given; empty: not known"
    )
    costs: dict[ChangeClass, ChangeCost] = Field(default={}, description="what changes of each class have cost here")
    memory: NodeMemory | None = Field(
        default=None, description="what its memory holds and how much there is; null: not told"
    )
    shape: ModelShape | None = Field(
        default=None, description="the sizes of the model it serves; null: not told, or of a kind that has others"
    )
    declared: dict[Named, DeclaredKnob] = Field(
        default={},
        max_length=MOST_DECLARED,
        description="knobs that this node has beside the contract's own: range, class, and what each does",
    )
    cache_reset: Limit | None = Field(
        default=None,
        description="how many of the asked-for emptyings of its prefix cache are done; null: the engine offers no way",
    )


class NodeView(BaseModel):
    """One node. `drift` is true when the desired and the effective knobs differ.

    `health_detail` says why a node is not healthy; of a healthy one, what cannot be seen or moved though it serves.
    """

    node: str = Field(description="its `service.instance.id`")
    pool: str = Field(description="the pool it serves in")
    role: NodeRole = Field(description="whether it takes production traffic")
    backend: str = Field(description="what runs the model: `embedded` or `vllm`")
    model: str | None = Field(default=None, description="the model it serves; null until it has said so")
    connected: bool = Field(description="whether its agent is heard from")
    healthy: bool = Field(description="whether its engine serves")
    health_detail: str = Field(
        default="", description="why it is not healthy; of a healthy one, what cannot be seen or moved though it serves"
    )
    last_seen: datetime | None = Field(default=None, description="when its agent was last heard from")
    desired_revision: int | None = Field(default=None, description="the revision it should run; null: nobody has said")
    desired_cache_reset: int = Field(default=0, description="how many times its prefix cache was to be emptied")
    effective: EffectiveConfig | None = Field(default=None, description="what it truly runs; null until it has said so")
    config_status: ConfigStatus = Field(default=ConfigStatus.UNSET, description="how far the last configuration is")
    config_error: str = Field(default="", description="why the last configuration failed")
    drift: bool = Field(default=False, description="whether the desired and the effective knobs differ")
    drift_since: datetime | None = Field(default=None, description="since when they differ")
    unaccounted_share: float | None = Field(
        default=None, description="share of e2e that no component accounts for, newest"
    )
    engine_url: str | None = Field(default=None, description="where its engine listens")
    agent_version: str | None = Field(default=None, description="its agent's version")
    engine_version: str = Field(default="", description="its engine's name and version; empty until it has said so")
    labels: dict[str, str] = Field(
        default={}, description="its labels, as its agent says them: region, zone, processor, gpu and its own"
    )
    claimed_at: datetime | None = Field(
        default=None, description="when another agent last claimed its name; null: none has"
    )
    claimed_by: str | None = Field(default=None, description="where that claim came from")
    released_until: datetime | None = Field(
        default=None, description="until when an administrator lets another agent take its name"
    )

    @property
    def selectable(self) -> dict[str, str]:
        """What selectors are held against: its labels, and `SAID_BY_NODE`."""
        return {
            **self.labels,
            "node": self.node,
            "pool": self.pool,
            "role": self.role.value,
            "backend": self.backend,
        }


class NodeState(StrEnum):
    """How a node is, in one word."""

    HEALTHY = "healthy"  # Its agent is heard from, its engine serves.
    DEGRADED = "degraded"  # It serves, but something of it cannot be seen or moved.
    UNHEALTHY = "unhealthy"  # Its agent is heard from, its engine does not serve.
    OFFLINE = "offline"  # Its agent is not heard from.


def state_of(connected: bool, healthy: bool, health_detail: str) -> NodeState:
    """From what `NodeView` says of it."""
    if not connected:
        return NodeState.OFFLINE
    if not healthy:
        return NodeState.UNHEALTHY
    return NodeState.DEGRADED if health_detail else NodeState.HEALTHY


class FleetColumns(BaseModel):
    """`GET /api/v1/fleet`: every node by name, rising, as columns of equal length, but `label_sets`. `NodeView` is one
    whole."""

    node: list[str] = Field(description="names, rising")
    pool: list[str] = Field(description="the pool it serves in")
    role: list[NodeRole] = Field(description="whether it takes production traffic")
    backend: list[str] = Field(description="what runs the model")
    model: list[str | None] = Field(description="the model it serves; null until it has said so")
    state: list[NodeState] = Field(description="how it is")
    config_failed: list[bool] = Field(description="whether it could not apply the configuration that it should run")
    revision: list[int | None] = Field(
        description="the revision it says it runs; 0: it was never given one; null: it has not said"
    )
    desired_revision: list[int | None] = Field(description="the revision it should run; null: nobody has said")
    config_hash: list[str] = Field(
        description="of the knobs that it runs: equal for equal ones, 12 digits; empty: not told"
    )
    drift_since: list[datetime | None] = Field(
        description="since when it differs from what it should run; null: it does not"
    )
    unaccounted_share: list[float | None] = Field(description="share of e2e that no component accounts for, newest")
    last_seen: list[datetime | None] = Field(description="when its agent was last heard from")
    labels: list[int] = Field(description="the place of its labels in `label_sets`, from 0")
    label_sets: list[dict[str, str]] = Field(description="each set of labels that nodes have, once; no column")


MOST_NAMED = 300
"""Nodes that `FleetOutline` names."""


class FleetOutline(BaseModel):
    """`GET /api/v1/fleet/outline`: what the fleet can be filtered by."""

    pool: str = Field(description="whose nodes these are: as asked for, else the first; empty: there is none")
    pools: list[str] = Field(description="those with serving nodes, rising")
    nodes: list[str] = Field(description=f"names, rising; none of them where there are more than {MOST_NAMED}")
    revisions: list[int] = Field(description="those that a serving node runs or should run, rising")


class TrialConfig(BaseModel):
    """`PUT /api/v1/nodes/{node}/trial-config`: set a trial node directly (scope operate)."""

    knobs: dict[str, Any] = Field(json_schema_extra=VALUES, description="knobs by name; the others take their defaults")
