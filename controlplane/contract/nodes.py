"""The fleet as the API shows it: nodes, what they should run, and what they truly run."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from controlplane.contract.knobs import ChangeClass


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

    count: int
    last_s: float  # From the agent's receipt until the change was in force, the last time.
    mean_s: float
    unavailable_s: float = 0.0  # Mean time in which requests had to wait: 0 for a live change or a standby's takeover.


class EffectiveConfig(BaseModel):
    """Read back from the engine, knob by knob, never echoed from the request.

    A knob that cannot be read is left out. `change_classes` say what a change costs on this node; up to `live_limits` a
    knob of class live needs nothing more, above it a restart, and above `limits` it cannot go here at all.
    """

    revision: int  # The revision the engine says it runs, 0 when it was never given one.
    knobs: dict[str, Any]
    sources: dict[str, str] = {}  # Knob to how it was read.
    change_classes: dict[str, ChangeClass] = {}  # Empty: those of the contract for this backend.
    live_limits: dict[str, int] = {}
    limits: dict[str, int] = {}
    formats: list[str] = []  # Weight formats this node can be given; empty: not known.
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
