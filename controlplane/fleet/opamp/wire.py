"""OpAMP messages to and from plain values: pure, no I/O.

Guarantees: bytes that are not an AgentToServer message raise `BadRequest`, too many of them `TooLarge`; one wrong
part of a message never loses its other parts (`AgentReport.problems` names the wrong ones).

Source: OpAMP specification (sections AgentToServer, ServerToAgent, WebSocket message format).
"""

import hashlib
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract import engine_address, metrics
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.errors import BadRequest, TooLarge, Unsupported
from controlplane.contract.reports import node_labels
from controlplane.contract.reports.opamp import (
    BACKEND,
    DECOMPOSITION,
    EFFECTIVE_CONFIG,
    ENGINE_CONFIG,
    ENGINE_PROCESS,
    ENGINE_URL,
    ENGINE_VERSION,
    LEASE_S,
    ROLE,
    SERVING_DEGRADED,
)
from controlplane.contract.shown_url import masked
from controlplane.fleet import effective, machine

MESSAGE_LIMIT_BYTES = 1 << 20
SERVER_CAPABILITIES = 0x27
"""Accepts status, offers remote configuration, accepts the effective one, offers connection settings."""
TAKES_CONNECTION_SETTINGS = 0x100
BEATS = 0x2000
"""AgentCapabilities: AcceptsOpAMPConnectionSettings, ReportsHeartbeat."""

_NAME = re.compile(r"^[A-Za-z0-9._:-]{1,128}$")
_TEXT_LIMIT = 2000
_NAME_LIMIT = 200
_STATUS = {
    opamp_pb2.RemoteConfigStatuses_UNSET: ConfigStatus.UNSET,
    opamp_pb2.RemoteConfigStatuses_APPLIED: ConfigStatus.APPLIED,
    opamp_pb2.RemoteConfigStatuses_APPLYING: ConfigStatus.APPLYING,
    opamp_pb2.RemoteConfigStatuses_FAILED: ConfigStatus.FAILED,
}


@dataclass(frozen=True)
class Description:
    """Who the agent says it is. Everything but `node` may be left out."""

    node: str
    version: str | None = None
    pool: str | None = None
    role: str | None = None
    backend: str | None = None
    model: str | None = None
    engine_url: str | None = None
    engine: machine.Engine = field(default_factory=machine.Engine)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """`detail`: why it is not healthy; of a healthy node, what of it cannot be seen or moved."""

    healthy: bool
    detail: str
    unaccounted_share: float | None


@dataclass(frozen=True)
class AgentReport:
    """One AgentToServer message. A part that is None was left out (unchanged)."""

    instance_uid: str  # Hexadecimal.
    sequence_num: int
    description: Description | None = None
    health: Health | None = None
    effective: EffectiveConfig | None = None
    config: machine.Acknowledged | None = None
    disconnecting: bool = False
    takes_connection_settings: bool = False
    takes_heartbeat: bool = False
    wants_instance_uid: bool = False
    problems: tuple[str, ...] = ()


# -- bytes -------------------------------------------------------------------------------------------------------------


def unpack(body: bytes, encoding: str) -> bytes:
    """The message of an HTTP body with this Content-Encoding."""
    _check_size(len(body))
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Unsupported(f"Content-Encoding: {encoding!r} is not accepted, use gzip or none", field="Content-Encoding")
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        message = inflater.decompress(body, MESSAGE_LIMIT_BYTES + 1)
    except zlib.error as error:
        raise BadRequest(f"body: not gzip data ({error})", field="body") from error
    _check_size(len(message))
    if not inflater.eof:
        raise BadRequest("body: gzip data ends too early", field="body")
    return message


def unframe(frame: bytes) -> bytes:
    """The message of a WebSocket frame: a header of one varint, always 0, stands before it."""
    _check_size(len(frame))
    if not frame or frame[0] != 0:
        raise BadRequest("a WebSocket message starts with the header 0 (one byte), then the protobuf", field="body")
    return frame[1:]


def frame(reply: opamp_pb2.ServerToAgent) -> bytes:
    return b"\x00" + bytes(reply.SerializeToString())


def _check_size(size_bytes: int) -> None:
    if size_bytes > MESSAGE_LIMIT_BYTES:
        raise TooLarge(f"body: an OpAMP message is at most {MESSAGE_LIMIT_BYTES} bytes", field="body")


# -- agent to server ---------------------------------------------------------------------------------------------------


def parse(message: bytes) -> AgentReport:
    """Read one message. Raises `BadRequest` when it is no AgentToServer, or does not say which agent it is."""
    sent = opamp_pb2.AgentToServer()
    try:
        sent.ParseFromString(message)
    except DecodeError as error:
        raise BadRequest("body: not an OpAMP AgentToServer message (protobuf)", field="body") from error
    if len(sent.instance_uid) != 16:
        raise BadRequest(f"instance_uid: wants 16 bytes (a UUID), got {len(sent.instance_uid)}", field="instance_uid")
    if sent.sequence_num >= 2**63:
        raise BadRequest("sequence_num: start at 0 and add one for each message", field="sequence_num")
    problems: list[str] = []
    return AgentReport(
        instance_uid=sent.instance_uid.hex(),
        sequence_num=sent.sequence_num,
        description=_description(sent.agent_description, problems) if sent.HasField("agent_description") else None,
        health=_health(sent.health, problems) if sent.HasField("health") else None,
        effective=_effective(sent.effective_config, problems) if sent.HasField("effective_config") else None,
        config=_acknowledged(sent.remote_config_status, problems) if sent.HasField("remote_config_status") else None,
        disconnecting=sent.HasField("agent_disconnect"),
        takes_connection_settings=bool(sent.capabilities & TAKES_CONNECTION_SETTINGS),
        takes_heartbeat=sent.capabilities & (takes := TAKES_CONNECTION_SETTINGS | BEATS) == takes,
        wants_instance_uid=bool(sent.flags & opamp_pb2.AgentToServerFlags_RequestInstanceUid),
        problems=tuple(problems),
    )


def problem_of(description: Description) -> str | None:
    """What is wrong with the names in a description, or None."""
    for name, value in ((metrics.NODE.name, description.node), (metrics.POOL.name, description.pool)):
        if value is not None and not _NAME.match(value):
            return f"{name}: {value!r} must be 1 to 128 of letters, digits and . _ : -"
    if description.role is not None and description.role not in ("serving", "trial"):
        return f"{ROLE}: {description.role!r} is not one of serving, trial"
    return None


def _description(sent: opamp_pb2.AgentDescription, problems: list[str]) -> Description:
    said = {item.key: _text(item.value) for item in sent.non_identifying_attributes}
    said |= {item.key: _text(item.value) for item in sent.identifying_attributes}
    labels, wrong = node_labels.from_the_wire(said)
    problems += wrong
    return Description(
        node=said.get(metrics.NODE.name, ""),
        version=said.get("service.version") or None,
        pool=said.get(metrics.POOL.name) or None,
        role=said.get(ROLE) or None,
        backend=said.get(BACKEND) or None,
        model=said.get(metrics.MODEL.name) or None,
        engine_url=_engine_url(said.get(ENGINE_URL, ""), problems),
        engine=machine.Engine(said.get(ENGINE_PROCESS, "")[:_NAME_LIMIT], said.get(ENGINE_VERSION, "")[:_NAME_LIMIT]),
        labels=labels,
    )


def _engine_url(said: str, problems: list[str]) -> str | None:
    problem = engine_address.problem_of(said) if said else None
    if problem is not None:
        problems.append(f"{ENGINE_URL}: {(masked(said) if '@' in said else said)[:100]!r} {problem}")
    return said if said and problem is None else None


def _text(value: Any) -> str:
    which = value.WhichOneof("value")
    return "" if which is None else _clean(str(getattr(value, which)))


def _clean(text: str) -> str:
    # PostgreSQL's text cannot hold NUL.
    return text.replace("\x00", "")[:_TEXT_LIMIT]


def _both_ends(text: str) -> str:
    """At most _TEXT_LIMIT characters, the middle left out: a failed start says what failed first, and why last."""
    text = text.replace("\x00", "")
    if len(text) <= _TEXT_LIMIT:
        return text
    head, gap = _TEXT_LIMIT // 4, "\n[...]\n"
    return text[:head] + gap + text[-(_TEXT_LIMIT - head - len(gap)) :]


def _health(sent: opamp_pb2.ComponentHealth, problems: list[str]) -> Health:
    share: float | None = None
    errors: dict[str, str] = {}
    degraded: list[str] = []
    for name, component in sorted(sent.component_health_map.items()):
        if name == DECOMPOSITION and component.status:
            share = _share(component.status, problems)
        elif not component.healthy:
            errors[name] = component.last_error or component.status or "unhealthy"
        elif component.status == SERVING_DEGRADED:
            degraded.append(f"{name}: {component.last_error or component.status}")
    own = sent.last_error or ("" if sent.healthy or errors else sent.status)
    # Many agents repeat their components' errors in their own: say each once, with the component's name.
    parts = [part for part in own.split("; ") if part and part not in errors.values()]
    parts += [f"{name}: {error}" for name, error in sorted(errors.items())] + degraded
    return Health(sent.healthy, _clean("; ".join(parts)), share)


def _share(text: str, problems: list[str]) -> float | None:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        problems.append(f"health.{DECOMPOSITION}.status: wants a decimal number, got {text[:40]!r}")
        return None
    return share


def _effective(sent: opamp_pb2.EffectiveConfig, problems: list[str]) -> EffectiveConfig | None:
    field = f"effective_config.{EFFECTIVE_CONFIG}"
    if EFFECTIVE_CONFIG not in sent.config_map.config_map:
        problems.append(f"{field}: missing; send the entry {EFFECTIVE_CONFIG!r} with revision, knobs and sources")
        return None
    found, wrong = effective.read(sent.config_map.config_map[EFFECTIVE_CONFIG].body)
    problems += [f"{field}.{problem}" for problem in wrong]
    return found


def _acknowledged(sent: opamp_pb2.RemoteConfigStatus, problems: list[str]) -> machine.Acknowledged | None:
    status = _STATUS.get(sent.status)
    if status is None:
        problems.append(f"remote_config_status.status: {sent.status} is not known")
        return None
    hash_text = _clean(sent.last_remote_config_hash.decode("ascii", "backslashreplace"))
    return machine.Acknowledged(hash_text, status, _both_ends(sent.error_message))


# -- server to agent ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """One ServerToAgent message, before it is encoded."""

    instance_uid: str
    offer: machine.Wish | None = None
    lease_s: float = LEASE_S  # Of an offer that is on trial.
    token: str | None = field(default=None, repr=False)  # The agent connects with it from now on.
    heartbeat_s: int | None = None  # The agent speaks so often from now on.
    new_instance_uid: bytes | None = None
    report_full_state: bool = False
    error: str | None = None
    retry_after_s: float | None = None  # With it the error is UNAVAILABLE (try again), without it BAD_REQUEST.

    def with_error(self, error: str) -> "Reply":
        return replace(self, error=error)


def encode(reply: Reply) -> opamp_pb2.ServerToAgent:
    message = opamp_pb2.ServerToAgent(instance_uid=bytes.fromhex(reply.instance_uid), capabilities=SERVER_CAPABILITIES)
    if reply.report_full_state:
        message.flags = opamp_pb2.ServerToAgentFlags_ReportFullState
    if reply.offer is not None:
        entry = message.remote_config.config.config_map[ENGINE_CONFIG]
        entry.body = machine.remote_body(reply.offer, reply.lease_s)
        entry.content_type = "application/json"
        message.remote_config.config_hash = reply.offer.hash.encode()
    if reply.new_instance_uid is not None:
        message.agent_identification.new_instance_uid = reply.new_instance_uid
    if reply.token is not None or reply.heartbeat_s is not None:
        settings = message.connection_settings
        settings.hash = hashlib.sha256(f"{reply.token or ''} {reply.heartbeat_s or ''}".encode()).digest()
        settings.opamp.heartbeat_interval_seconds = reply.heartbeat_s or 0
    if reply.token is not None:
        settings.opamp.headers.headers.add(key="Authorization", value=f"Bearer {reply.token}")
    if reply.error is not None:
        message.error_response.error_message = reply.error
        message.error_response.type = opamp_pb2.ServerErrorResponseType_BadRequest
        if reply.retry_after_s is not None:
            message.error_response.type = opamp_pb2.ServerErrorResponseType_Unavailable
            message.error_response.retry_info.retry_after_nanoseconds = int(reply.retry_after_s * 1e9)
    return message
