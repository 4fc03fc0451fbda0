"""What rules watch for: each kind is one file behind the seam `kind`, and one entry of the table here."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from controlplane.alerts.conditions.absolute import Absolute
from controlplane.alerts.conditions.burn_rate import BurnRate
from controlplane.alerts.conditions.fleet_wide.config_failed import ConfigFailed
from controlplane.alerts.conditions.fleet_wide.drift import Drift
from controlplane.alerts.conditions.fleet_wide.node_claimed import NodeClaimed
from controlplane.alerts.conditions.fleet_wide.rollout_waits import RolloutWaits
from controlplane.alerts.conditions.fleet_wide.telemetry_lost import TelemetryLost
from controlplane.alerts.conditions.kind import Kind
from controlplane.alerts.conditions.regression import Regression
from controlplane.alerts.conditions.requests_failed import RequestsFailed
from controlplane.alerts.conditions.saturation import Saturation
from controlplane.alerts.conditions.symptom import SymptomKind
from controlplane.alerts.conditions.traffic_changed import TrafficChanged

__all__ = ["KINDS"]

KINDS: Mapping[type[BaseModel], type[Kind[Any]]] = {
    kind.condition: kind
    for kind in (
        Absolute,
        Regression,
        RequestsFailed,
        Drift,
        ConfigFailed,
        NodeClaimed,
        RolloutWaits,
        TelemetryLost,
        BurnRate,
        Saturation,
        TrafficChanged,
        SymptomKind,
    )
}
"""By the condition's body in the contract."""
