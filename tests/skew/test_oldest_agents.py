"""What agents of every recorded version say is taken and answered by today's service as it was then.

An answer may say more than it did; what it said, it says still. A configuration that is offered may not: an agent
refuses a knob that it does not know.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from opentelemetry._opamp.proto import opamp_pb2
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from controlplane.app.secrets_files import ADMIN, ENROLMENT, read
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.reports.opamp import ENGINE_CONFIG
from controlplane.contract.reports.packed_report import ACCEPT_HEADER, ACCEPT_PACKED, TIME_HEADER
from tests.skew.conversation import FOLDER, Clock, Conversation, Exchange

RECORDED = sorted(FOLDER.glob("*.json"))
SECRET = {"token", "workload_key"}
"""Another one in each service."""


class Service:
    """Today's service on the recording's clock; `bearers` by who shows them."""

    def __init__(self, http: TestClient, data_dir: Path, clock: Clock) -> None:
        self.http = http
        self._clock = clock
        self.bearers = {"enrolment": read(data_dir, ENROLMENT), "operator": read(data_dir, ADMIN)}

    def headers(self, one: Exchange) -> dict[str, str]:
        return {**one.said.headers, "Authorization": f"Bearer {self.bearers[one.who]}"}

    def answer(self, one: Exchange) -> tuple[int, dict[str, str], bytes]:
        self._clock.now = one.time
        found = self.http.request(one.method, one.path, content=one.said.body, headers=self.headers(one))
        if one.path == "/api/v1/enrol":
            self.bearers["agent"] = found.json()["token"]
        if one.path == "/v1/opamp":
            for header in opamp_pb2.ServerToAgent.FromString(found.content).connection_settings.opamp.headers.headers:
                self.bearers["agent"] = header.value.removeprefix("Bearer ")
        return found.status_code, dict(found.headers), found.content


@contextmanager
def served(conversation: Conversation, folder: Path) -> Iterator[Service]:
    clock = Clock(conversation.exchanges[0].time)
    app = create_app(ServiceSettings(data_dir=folder), clock)
    with TestClient(app, base_url="http://127.0.0.1:7300") as http:
        yield Service(http, folder, clock)


def still_said(then: Any, now: Any, where: str) -> None:
    """Whatever was there is there: of objects each key, of lists each item; secrets have their form."""
    if isinstance(then, dict):
        assert isinstance(now, dict), where
        for key, value in then.items():
            assert key in now, f"{where}.{key} is gone"
            if key in SECRET:
                assert isinstance(now[key], str) and len(now[key]) == len(value), f"{where}.{key}"
            else:
                still_said(value, now[key], f"{where}.{key}")
    elif isinstance(then, list):
        assert isinstance(now, list) and len(now) == len(then), where
        for place, (one, other) in enumerate(zip(then, now, strict=True)):
            still_said(one, other, f"{where}[{place}]")
    else:
        assert now == (pytest.approx(then) if isinstance(then, float) else then), where


def same_opamp(then: bytes, now: bytes, where: str) -> None:
    """What the agent reads of a ServerToAgent (`OpampClient._take`)."""
    before, after = opamp_pb2.ServerToAgent.FromString(then), opamp_pb2.ServerToAgent.FromString(now)
    assert after.instance_uid == before.instance_uid and after.flags == before.flags, where
    assert after.capabilities & before.capabilities == before.capabilities, where
    for part in ("error_response", "agent_identification", "remote_config", "connection_settings"):
        assert after.HasField(part) == before.HasField(part), f"{where}: {part}"
    assert after.error_response == before.error_response, where
    headers = [
        [(one.key, len(one.value)) for one in said.connection_settings.opamp.headers.headers]
        for said in (before, after)
    ]
    assert headers[0] == headers[1], f"{where}: another token"
    assert after.remote_config.config_hash == before.remote_config.config_hash, where
    if before.HasField("remote_config"):
        offers = [json.loads(one.remote_config.config.config_map[ENGINE_CONFIG].body) for one in (before, after)]
        assert offers[1]["knobs"] == offers[0]["knobs"], f"{where}: older agents refuse knobs that they do not know"
        still_said(offers[0], offers[1], where)


def check(one: Exchange, status: int, headers: dict[str, str], body: bytes) -> None:
    where = f"{one.method} {one.path}"
    assert status == one.status, f"{where}: {body[:300]!r}"
    assert headers.get("content-type") == one.answered.headers.get("content-type"), where
    if one.path == "/v1/opamp":
        same_opamp(one.answered.body, body, where)
    elif one.path in ("/v1/metrics", "/v1/traces"):
        kind: Any = ExportMetricsServiceResponse if one.path == "/v1/metrics" else ExportTraceServiceResponse
        assert kind.FromString(body) == kind.FromString(one.answered.body), where
        assert ACCEPT_PACKED in headers[ACCEPT_HEADER.lower()] and headers[TIME_HEADER.lower()].isdigit()
    else:
        still_said(json.loads(one.answered.body), json.loads(body), where)


@pytest.mark.slow
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_an_agent_of_each_version_is_answered_as_then(file: Path, tmp_path: Path) -> None:
    conversation = Conversation.load(file)
    with served(conversation, tmp_path / "data") as service:
        for one in conversation.exchanges:
            check(one, *service.answer(one))


@pytest.mark.slow
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_the_same_over_a_websocket(file: Path, tmp_path: Path) -> None:
    """Each frame is a zero byte and the message. An offer may be pushed before it is asked for: it is the same one."""
    conversation = Conversation.load(file)
    with served(conversation, tmp_path / "data") as service:
        began = conversation.exchanges[0].time
        rest = [one for one in conversation.exchanges if one.time == began]  # Another token ends a connection.
        while rest[0].path != "/v1/opamp":
            service.answer(rest.pop(0))
        bearer = {"Authorization": f"Bearer {service.bearers['agent']}"}
        offered, seen = set(), set()
        with service.http.websocket_connect("/v1/opamp", headers=bearer) as socket:
            for one in rest:
                if one.who == "operator":
                    check(one, *service.answer(one))
                    continue
                before = opamp_pb2.ServerToAgent.FromString(one.answered.body)
                offered |= {before.remote_config.config_hash} - {b""}
                socket.send_bytes(b"\0" + one.said.body)
                frame = socket.receive_bytes()
                while True:
                    assert frame[:1] == b"\0"
                    after = opamp_pb2.ServerToAgent.FromString(frame[1:])
                    seen |= {after.remote_config.config_hash} - {b""}
                    assert after.instance_uid == before.instance_uid and not after.HasField("error_response")
                    if after.remote_config.config_hash == before.remote_config.config_hash:
                        same_opamp(one.answered.body, frame[1:], "WebSocket")
                        break
                    frame = socket.receive_bytes()
        assert offered and seen == offered


def test_every_form_of_a_message_is_among_those_recorded() -> None:
    """Else the recording shows less than it seems to."""
    for file in RECORDED:
        exchanges = Conversation.load(file).exchanges
        kinds = {one.said.headers["content-type"] for one in exchanges if one.path == "/v1/metrics"}
        assert kinds == {"application/x-protobuf", "application/x-tailwright-report"}
        assert {one.path for one in exchanges} >= {"/api/v1/enrol", "/v1/metrics", "/v1/traces", "/v1/opamp"}
        said = [opamp_pb2.AgentToServer.FromString(one.said.body) for one in exchanges if one.path == "/v1/opamp"]
        statuses = {one.remote_config_status.status for one in said}
        assert {opamp_pb2.RemoteConfigStatuses_APPLIED, opamp_pb2.RemoteConfigStatuses_FAILED} <= statuses
        assert any(one.HasField("agent_disconnect") for one in said)
        told = [opamp_pb2.ServerToAgent.FromString(one.answered.body) for one in exchanges if one.path == "/v1/opamp"]
        assert any(one.HasField("connection_settings") for one in told) and any(
            one.HasField("remote_config") for one in told
        )
        counted = [json.loads(one.answered.body)["series"] for one in exchanges if "/quantiles" in one.path]
        assert counted and all(sum(series["count"] for series in found) for found in counted)
