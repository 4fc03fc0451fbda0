"""The fleet as the API shows it: nodes, what they should run, and what they truly run."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field

from controlplane.contract.knobs import LARGEST_REPORTED, ChangeClass

MOST_ENTRIES = 64
"""Of each part of an effective configuration."""

Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=0, le=LARGEST_REPORTED)]
Source = Annotated[str, Field(max_length=500)]
Format = Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")]
Named = Annotated[str, Field(max_length=64)]


class NodeRole(StrEnum):
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

    count: int = Field(ge=0, le=LARGEST_REPORTED)
    last_s: Cost  # From the agent's receipt until the change was in force, the last time.
    mean_s: Cost
    unavailable_s: Cost = 0.0  # Mean time in which requests had to wait: 0 for a live change or a standby's takeover.


class EffectiveConfig(BaseModel):
    """Read back from the engine, knob by knob, never echoed from the request.

    A knob that cannot be read is left out. `change_classes` say what a change costs on this node; up to `live_limits` a
    knob of class live needs nothing more, above it a restart, and above `limits` it cannot go here at all.
    """

    revision: int = Field(ge=0, lt=2**63)  # What the engine says it runs, 0 when it was never given one.
    knobs: dict[Named, Any] = Field(max_length=MOST_ENTRIES)
    sources: dict[Named, Source] = Field(default={}, max_length=MOST_ENTRIES)  # Knob to how it was read.
    change_classes: dict[Named, ChangeClass] = Field(default={}, max_length=MOST_ENTRIES)  # Empty: the contract's.
    live_limits: dict[Named, Limit] = Field(default={}, max_length=MOST_ENTRIES)
    limits: dict[Named, Limit] = Field(default={}, max_length=MOST_ENTRIES)
    formats: list[Format] = Field(default=[], max_length=MOST_ENTRIES)  # What it can be given; empty: not known.
    costs: dict[ChangeClass, ChangeCost] = {}


class NodeView(BaseModel):
    """One node. `drift` is true when the desired and the effective knobs differ.

    `health_detail` says why a node is not healthy; of a healthy one, what cannot be seen or moved though it serves.
    """

    node: str
    pool: str
    role: NodeRole
    backend: str
    model: str | None = None
    connected: bool
    healthy: bool
    health_detail: str = ""
    last_seen: datetime | None = None
    desired_revision: int | None = None
    effective: EffectiveConfig | None = None
    config_status: ConfigStatus = ConfigStatus.UNSET
    config_error: str = ""
    drift: bool = False
    drift_since: datetime | None = None
    unaccounted_share: float | None = None
    engine_url: str | None = None
    agent_version: str | None = None


class TrialConfig(BaseModel):
    """`PUT /api/v1/nodes/{node}/trial-config`: set a trial node directly (scope operate)."""

    knobs: dict[str, Any]
