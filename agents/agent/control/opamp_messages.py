"""OpAMP messages of the agent, built from a snapshot of the node. Pure: no I/O, no clock.

Source: OpAMP specification (Agent Management Protocol), messages AgentToServer and ServerToAgent.
Guarantee: sequence numbers rise by one with each message; a part that has not changed since the last message is left
out unless the full state is wanted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opentelemetry._opamp.proto import anyvalue_pb2, opamp_pb2

from agents.agent.control.offer import ConfigOutcome
from agents.agent.reports.report import SERVICE_NAME
from agents.backends.base import EngineHealth
from controlplane.contract import metrics
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.reports import node_labels, opamp

CAPABILITIES = 0x3907
"""ReportsStatus, AcceptsRemoteConfig, ReportsEffectiveConfig, AcceptsOpAMPConnectionSettings, ReportsHealth,
ReportsRemoteConfig, ReportsHeartbeat."""

_STATUSES = {
    ConfigStatus.UNSET: opamp_pb2.RemoteConfigStatuses_UNSET,
    ConfigStatus.APPLIED: opamp_pb2.RemoteConfigStatuses_APPLIED,
    ConfigStatus.APPLYING: opamp_pb2.RemoteConfigStatuses_APPLYING,
    ConfigStatus.FAILED: opamp_pb2.RemoteConfigStatuses_FAILED,
}


@dataclass(frozen=True)
class NodeSnapshot:
    """All that a message may say of the node."""

    node: str
    pool: str
    role: str
    backend: str
    engine_url: str
    version: str
    started_ns: int
    engine: EngineHealth
    spool: EngineHealth
    outcome: ConfigOutcome
    model: str = ""
    engine_process: str = ""
    engine_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    spool_status: str = ""
    unaccounted_share: float | None = None
    effective: EffectiveConfig | None = None
    cache_reset: int | None = 0


def news(snapshot: NodeSnapshot) -> NodeSnapshot:
    """What of it is told at once where it changes. The rest moves at nearly each look, and goes with a heartbeat: else
    a fleet would never be as quiet as the service asks it to be. That a share is known at all is news."""
    return replace(snapshot, spool_status="", unaccounted_share=None if snapshot.unaccounted_share is None else 0.0)


class MessageBuilder:
    """Builds the messages of one agent process, in order."""

    def __init__(self, instance_uid: bytes) -> None:
        self.instance_uid = instance_uid
        self._sequence_num = 0
        self._sent: dict[str, object] = {}

    def build(self, snapshot: NodeSnapshot, *, full: bool) -> opamp_pb2.AgentToServer:
        """The next message; with `full`, every part is in it."""
        message = self._empty()
        parts = {
            "agent_description": describe(snapshot),
            "health": health(snapshot),
            "effective_config": effective_config(snapshot.effective, snapshot.cache_reset),
            "remote_config_status": remote_config_status(snapshot.outcome),
        }
        for name, part in parts.items():
            if part is not None and (full or self._sent.get(name) != part):
                getattr(message, name).CopyFrom(part)
                self._sent[name] = part
        return message

    def disconnect(self) -> opamp_pb2.AgentToServer:
        """The last message of a process that ends as it should."""
        message = self._empty()
        message.agent_disconnect.SetInParent()
        return message

    def _empty(self) -> opamp_pb2.AgentToServer:
        self._sequence_num += 1
        return opamp_pb2.AgentToServer(
            instance_uid=self.instance_uid, sequence_num=self._sequence_num, capabilities=CAPABILITIES
        )


def describe(snapshot: NodeSnapshot) -> opamp_pb2.AgentDescription:
    def attributes(**pairs: str) -> list[anyvalue_pb2.KeyValue]:
        return [
            anyvalue_pb2.KeyValue(key=name, value=anyvalue_pb2.AnyValue(string_value=value))
            for name, value in pairs.items()
            if value
        ]

    return opamp_pb2.AgentDescription(
        identifying_attributes=attributes(
            **{metrics.NODE.name: snapshot.node, "service.name": SERVICE_NAME, "service.version": snapshot.version}
        ),
        non_identifying_attributes=attributes(
            **{
                metrics.POOL.name: snapshot.pool,
                opamp.ROLE: snapshot.role,
                opamp.BACKEND: snapshot.backend,
                metrics.MODEL.name: snapshot.model,
                opamp.ENGINE_URL: snapshot.engine_url,
                opamp.ENGINE_PROCESS: snapshot.engine_process,
                opamp.ENGINE_VERSION: snapshot.engine_version,
                **node_labels.on_the_wire(snapshot.labels),
            }
        ),
    )


def health(snapshot: NodeSnapshot) -> opamp_pb2.ComponentHealth:
    """Healthy when engine and spool are; `decomposition` carries the unaccounted share as decimal text.

    An engine that serves while something of it cannot be seen or moved is healthy with the status `SERVING_DEGRADED`:
    the component `engine` tells in `last_error` what is missing.
    """
    engine, spool, share = snapshot.engine, snapshot.spool, snapshot.unaccounted_share
    problems = "; ".join(part.detail for part in (engine, spool) if not part.healthy)
    healthy = engine.healthy and spool.healthy
    serving = opamp.SERVING_DEGRADED if engine.degraded else opamp.SERVING
    message = opamp_pb2.ComponentHealth(
        healthy=healthy,
        start_time_unix_nano=snapshot.started_ns,
        status=serving if healthy else "degraded",
        last_error=problems,
    )
    for name, ok, status, error in (
        ("engine", engine.healthy, serving if engine.healthy else "down", engine.detail or engine.degraded),
        ("spool", spool.healthy, snapshot.spool_status, spool.detail),
        (opamp.DECOMPOSITION, True, "" if share is None else f"{share:.6f}", ""),
    ):
        component = message.component_health_map[name]
        component.healthy, component.status, component.last_error = ok, status, error
        component.start_time_unix_nano = snapshot.started_ns
    return message


def effective_config(effective: EffectiveConfig | None, cache_reset: int | None) -> opamp_pb2.EffectiveConfig | None:
    """Only what is known: a part that a backend does not tell is left out, so that absent never reads as empty."""
    if effective is None:
        return None
    message = opamp_pb2.EffectiveConfig()
    file = message.config_map.config_map[opamp.EFFECTIVE_CONFIG]
    told = effective.model_copy(update={"cache_reset": cache_reset})
    file.body = json.dumps(told.model_dump(mode="json", exclude_defaults=True), sort_keys=True).encode()
    file.content_type = "application/json"
    return message


def remote_config_status(outcome: ConfigOutcome) -> opamp_pb2.RemoteConfigStatus:
    return opamp_pb2.RemoteConfigStatus(
        last_remote_config_hash=outcome.offer_hash, status=_STATUSES[outcome.status], error_message=outcome.error
    )
