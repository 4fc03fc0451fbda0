"""A real service on a free port, agents that speak both of OpAMP's transports, and a bare database."""

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx
import pytest
from opentelemetry._opamp.proto import opamp_pb2
from websockets.sync.client import connect

from controlplane.app.serve import Server, server_of
from controlplane.app.settings import ServiceSettings
from controlplane.client import Client
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.reports.opamp import ENGINE_PROCESS, ENGINE_VERSION
from controlplane.db.database import Database
from controlplane.fleet.opamp.hub import FleetParts
from tests.made_tables import migrate

FULL_CAPABILITIES = 0x3807


class Service:
    """A running service, with a client for each of its token files."""

    def __init__(self, server: Server, data_dir: Path) -> None:
        self.server = server
        self.data_dir = data_dir
        self.url = f"http://127.0.0.1:{server.port}"
        self.admin = Client(self.url, self.token("admin-token"))
        self.enroller = Client(self.url, self.token("enrolment-token"))

    def token(self, filename: str) -> str:
        return (self.data_dir / filename).read_text().strip()

    @property
    def parts(self) -> FleetParts:
        return self.server.service

    def enrol(
        self, node: str, pool: str, role: Literal["serving", "trial"] = "serving", old_token: str | None = None
    ) -> str:
        wanted = EnrolmentRequest(node=node, pool=pool, backend="embedded", role=role, old_token=old_token)
        return self.enroller.enrol(wanted).token


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("service")
    server = server_of(ServiceSettings(data_dir=data_dir, port=0, log_level="error"))
    for tick in server.service.background.ticks:
        tick.period_s = min(tick.period_s, 0.5)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.accepting.wait(30)
    running = Service(server, data_dir)
    yield running
    running.admin.close()
    running.enroller.close()
    server.should_exit = True
    thread.join(15)
    assert not thread.is_alive()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        made = Database(f"sqlite:///{tmp_path / 'fleet.db'}")
    else:
        made = Database(request.getfixturevalue("postgres_schema_url"))
    migrate(made)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name nobody else in this run has."""
    return f"n-{uuid.uuid4().hex[:8]}"


class Wire(Protocol):
    """One agent's way to the service."""

    def exchange(self, message: opamp_pb2.AgentToServer) -> opamp_pb2.ServerToAgent: ...

    def __enter__(self) -> "Wire": ...

    def __exit__(self, *_: object) -> None: ...


class HttpWire:
    def __init__(self, service: Service, token: str) -> None:
        self.http = httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {token}"})

    def exchange(self, message: opamp_pb2.AgentToServer) -> opamp_pb2.ServerToAgent:
        headers = {"Content-Type": "application/x-protobuf"}
        answer = self.http.post("/v1/opamp", content=message.SerializeToString(), headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "application/x-protobuf"
        return opamp_pb2.ServerToAgent.FromString(answer.content)

    def __enter__(self) -> "HttpWire":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


class SocketWire:
    def __init__(self, service: Service, token: str) -> None:
        url = service.url.replace("http", "ws") + "/v1/opamp"
        self._connecting = connect(url, additional_headers={"Authorization": f"Bearer {token}"})

    def exchange(self, message: opamp_pb2.AgentToServer) -> opamp_pb2.ServerToAgent:
        self.socket.send(b"\x00" + message.SerializeToString())
        return self.receive()

    def receive(self) -> opamp_pb2.ServerToAgent:
        frame = self.socket.recv(timeout=60)
        assert isinstance(frame, bytes)
        assert frame[0] == 0
        return opamp_pb2.ServerToAgent.FromString(frame[1:])

    def __enter__(self) -> "SocketWire":
        self.socket = self._connecting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


Connect = Callable[[str], Wire]


@pytest.fixture(params=[HttpWire, SocketWire], ids=["http", "websocket"])
def wire(request: pytest.FixtureRequest, service: Service) -> Connect:
    """Connects with a token, over each transport in turn."""
    return lambda token: request.param(service, token)


@pytest.fixture
def http_wire(service: Service) -> Callable[[str], HttpWire]:
    return lambda token: HttpWire(service, token)


@pytest.fixture
def socket_wire(service: Service) -> Callable[[str], SocketWire]:
    return lambda token: SocketWire(service, token)


class Agent:
    """Builds an agent's messages: numbers them, and says what it is told to say."""

    def __init__(self, node: str, pool: str, role: str = "serving") -> None:
        self.uid = uuid.uuid4().bytes
        self.sequence = -1
        self.node, self.pool, self.role = node, pool, role

    def message(self, *, skip: int = 0) -> opamp_pb2.AgentToServer:
        """A heartbeat: nothing has changed. `skip` messages before it were lost."""
        self.sequence += 1 + skip
        return opamp_pb2.AgentToServer(
            instance_uid=self.uid, sequence_num=self.sequence, capabilities=FULL_CAPABILITIES
        )

    def of_engine(self, process: str, version: str) -> opamp_pb2.AgentToServer:
        """A full message that says which engine serves."""
        message = self.full()
        for key, value in ((ENGINE_PROCESS, process), (ENGINE_VERSION, version)):
            message.agent_description.non_identifying_attributes.add(key=key).value.string_value = value
        return message

    def labelled(self, attributes: dict[str, str]) -> opamp_pb2.AgentToServer:
        """A full message with these attributes of the node."""
        message = self.full()
        for key, value in attributes.items():
            message.agent_description.non_identifying_attributes.add(key=key).value.string_value = value
        return message

    def full(self, knobs: dict[str, Any] | None = None, revision: int = 0) -> opamp_pb2.AgentToServer:
        message = self.message()
        identifying = {"service.instance.id": self.node, "service.name": "tailwright-agent", "service.version": "1.2"}
        others = {
            "tailwright.pool": self.pool,
            "tailwright.role": self.role,
            "tailwright.backend": "embedded",
            "gen_ai.request.model": "tiny",
            "tailwright.engine_url": "http://127.0.0.1:7400",
        }
        for key, value in identifying.items():
            message.agent_description.identifying_attributes.add(key=key).value.string_value = value
        for key, value in others.items():
            message.agent_description.non_identifying_attributes.add(key=key).value.string_value = value
        message.health.healthy = True
        for component in ("engine", "spool", "telemetry"):
            message.health.component_health_map[component].healthy = True
        message.health.component_health_map["decomposition"].healthy = True
        message.health.component_health_map["decomposition"].status = "0.0125"
        if knobs is not None:
            self.add_effective(message, knobs, revision)
        return message

    def add_effective(self, message: opamp_pb2.AgentToServer, knobs: dict[str, Any], revision: int) -> None:
        said = EffectiveConfig(revision=revision, knobs=knobs, sources={name: "GET /config" for name in knobs})
        entry = message.effective_config.config_map.config_map["effective.json"]
        entry.body, entry.content_type = said.model_dump_json().encode(), "application/json"

    def status(self, config_hash: bytes, status: int, error: str = "") -> opamp_pb2.AgentToServer:
        message = self.message()
        message.remote_config_status.last_remote_config_hash = config_hash
        message.remote_config_status.status = status
        message.remote_config_status.error_message = error
        return message


@pytest.fixture
def make_agent() -> type[Agent]:
    return Agent


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Asks again until it holds, for at most 10 seconds."""

    def wait(condition: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(1000):
            if condition():
                return
            pause.wait(0.01)
        raise AssertionError("it never held")

    return wait
