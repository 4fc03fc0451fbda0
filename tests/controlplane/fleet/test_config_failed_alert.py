"""A canary that cannot bring its configuration up, through the real API: rolled back, and a person hears of it."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.knobs import EngineConfig

pytestmark = pytest.mark.slow

LOG = "vLLM did not come up within 240 s\n" + "INFO loading\n" * 300 + "ValueError: no int4 kernel for this CPU"


@pytest.fixture
def pager() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    server.shutdown()
    server.server_close()
    thread.join()


class Node:
    """A fake agent on a wire: it runs what it is given, unless that cannot be brought up."""

    def __init__(self, agent: Any, link: Any) -> None:
        self.agent, self.link = agent, link
        self.knobs, self.revision = EngineConfig().knobs(), 0
        self.exchange(agent.full(self.knobs))

    def exchange(self, message: opamp_pb2.AgentToServer) -> None:
        """Send, and carry out what is offered in the answer, until there is nothing more."""
        answer = self.link.exchange(message)
        if not answer.HasField("remote_config"):
            return
        offer = json.loads(answer.remote_config.config.config_map["engine.json"].body)
        given = answer.remote_config.config_hash
        if offer["knobs"]["quantization"] == "int4":
            self.exchange(self.agent.status(given, opamp_pb2.RemoteConfigStatuses_FAILED, LOG))
            return
        self.knobs, self.revision = offer["knobs"], offer["revision"]
        said = self.agent.status(given, opamp_pb2.RemoteConfigStatuses_APPLIED)
        self.agent.add_effective(said, self.knobs, self.revision)
        self.exchange(said)

    def beat(self) -> None:
        self.exchange(self.agent.message())


def test_a_failed_configuration_is_an_alert_until_something_else_is_rolled_out(
    service: Any, wire: Any, make_agent: Any, name: str, eventually: Callable[..., None], pager: Any
) -> None:
    url, got = pager
    pool = f"pool-{name}"
    service.admin.create_destination(DestinationCreate(name=f"pager-{name}", url=url))
    with wire(service.enrol(name, pool)) as link:
        node = Node(make_agent(name, pool), link)
        base = service.admin.node(name).desired_revision
        assert base is not None
        broken = service.admin.create_config(RevisionCreate(knobs={"quantization": "int4"}, base=base))
        rollout = service.admin.create_rollout(RolloutCreate(pool=pool, revision=broken.number))

        def mine() -> list[Alert]:
            node.beat()
            labels = {"kind": "config_failed", "pool": pool, "node": name}  # Beside it there may be one of drift.
            return [one for one in service.admin.alerts() if one.labels == labels]

        # A look may have begun just before the failure that it finds: then the next one confirms it.
        eventually(lambda: [one.state for one in mine()] == ["firing"])
        alert = mine()[0]
        assert (alert.rule, alert.severity) == ("Configuration failed", "page")
        assert f"revision {broken.number} (quantization none -> int4)" in alert.summary
        assert alert.summary.rstrip(".").endswith("no int4 kernel for this CPU")
        assert alert.evidence["differing"] == {"quantization": ["none", "int4"]}
        assert alert.evidence["error"].endswith("no int4 kernel for this CPU")
        back = (RolloutPhase.ROLLED_BACK, RolloutPhase.ROLLING_BACK)
        eventually(lambda: service.admin.rollout(rollout.id).phase in back)
        eventually(lambda: any(one["tailwright"]["id"] == alert.id for one in got))
        # The node runs the old configuration again, without drift or an error: only the alert still tells.
        eventually(lambda: not mine() or service.admin.node(name).config_status == "applied")
        assert not service.admin.node(name).drift and mine()[0].state == "firing"

        eventually(lambda: service.admin.rollout(rollout.id).ended_at is not None)
        other = service.admin.create_config(RevisionCreate(knobs={"max_num_seqs": 7}, base=base))
        service.admin.create_rollout(RolloutCreate(pool=pool, revision=other.number))
        eventually(lambda: mine()[0].state == "resolved")
        assert service.admin.node(name).effective.knobs["max_num_seqs"] == 7
        statuses = lambda: [one["status"] for one in got if one["tailwright"]["id"] == alert.id]  # noqa: E731
        eventually(lambda: statuses() == ["firing", "resolved"])
