"""Nobody takes over a node: a real service, real agents, and those who claim what is not theirs (SEC H2, M8)."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract.metrics import REQUESTS
from tests.controlplane.fleet.conftest import Agent
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TAILWRIGHT = [sys.executable, "-m", "controlplane.command.main"]


@contextlib.contextmanager
def process(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
    with log.open("ab") as output:
        started = subprocess.Popen([*TAILWRIGHT, *words], cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


class Fleet:
    """A service, and what an attacker or an agent does to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    @contextlib.contextmanager
    def running(self, *flags: str) -> Iterator["Fleet"]:
        up = ("up", "--no-tuner", "--no-dashboard", "--port", str(self.port), "--data-dir", str(self.data), *flags)
        with process(self.folder / "up.log", *up):
            wait_for("the service is ready", lambda: self.http.get("/readyz").status_code == 200)
            yield self

    def token(self, file: str) -> str:
        return (self.data / file).read_text().strip()

    def call(self, method: str, path: str, token: str, **more: Any) -> httpx.Response:
        return self.http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)

    def enrol(self, node: str, token: str = "", **more: Any) -> httpx.Response:
        body = {"node": node, "pool": "chat", "backend": "embedded", **more}
        return self.call("POST", "/api/v1/enrol", token or self.token("enrolment-token"), json=body)

    def node(self, node: str) -> dict[str, Any]:
        answer = self.call("GET", f"/api/v1/nodes/{node}", self.token("admin-token"))
        return dict(answer.json()) if answer.status_code == 200 else {}

    def ledger(self, kind: str) -> list[dict[str, Any]]:
        found = self.call("GET", f"/api/v1/ledger?kind={kind}&limit=500", self.token("admin-token")).json()
        return list(found["items"])

    def alerts(self, kind: str, node: str) -> list[dict[str, Any]]:
        found = self.call("GET", "/api/v1/alerts?limit=100", self.token("admin-token")).json()["items"]
        return [alert for alert in found if (alert["labels"].get("kind"), alert["labels"].get("node")) == (kind, node)]

    @contextlib.contextmanager
    def agent(self, node: str, state: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        engine = f"http://127.0.0.1:{free_port()}"  # Nobody listens there: the node is connected, and not healthy.
        words = ("agent", "--node", node, "--pool", "chat", "--server-url", self.url, "--engine-url", engine)
        token = ("--enrolment-token-file", str(self.data / "enrolment-token"))
        quick = ("--heartbeat-s", "0.5", "--no-host-metrics")
        with process(state.with_suffix(".log"), *words, *token, *quick, "--state-dir", str(state), *flags) as started:
            yield started

    def connected(self, node: str) -> bool:
        return bool(self.node(node).get("connected"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")).running() as found:
        yield found


@pytest.fixture(scope="module")
def copied(running: Fleet) -> Iterator[str]:
    """A node whose agent's state folder was copied: two agents run with it, for as long as there are tests here."""
    node, state, copy = "w4", running.folder / "w4", running.folder / "w4-copy"
    with running.agent(node, state):
        wait_for("w4 is connected", lambda: running.connected(node))
        shutil.copytree(state, copy, ignore=shutil.ignore_patterns("*.sock"))
        with running.agent(node, copy):
            yield node


@pytest.fixture
def fleet(running: Fleet, copied: str) -> Fleet:
    """With the copied agents from the first test on: the one that has given way pauses before it speaks again."""
    assert running.node(copied)
    return running


def test_the_enrolment_token_does_not_take_a_node_that_is_heard_from(fleet: Fleet) -> None:
    with fleet.agent("w1", fleet.folder / "w1"):
        wait_for("w1 is connected", lambda: fleet.connected("w1"))
        for _ in range(3):
            answer = fleet.enrol("w1")
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "node_is_live")
        assert fleet.connected("w1"), "the real agent noticed nothing"
        (alert,) = wait_for("the alert", lambda: fleet.alerts("node_claimed", "w1"))
        assert "two agents claim node w1" in alert["summary"]
        assert fleet.node("w1")["claimed_by"].startswith("an agent at 127.0.0.1")
        # An administrator lets another have the name.
        assert fleet.call("POST", "/api/v1/nodes/w1/release", fleet.token("enrolment-token")).status_code == 403
        assert fleet.call("POST", "/api/v1/nodes/w1/release", fleet.token("admin-token")).status_code == 200
        assert fleet.enrol("w1").status_code == 201


def test_telemetry_of_another_pool_is_refused(fleet: Fleet) -> None:
    token = fleet.enrol("w2").json()["token"]
    said = {"service.instance.id": "w2", "tailwright.pool": "other"}
    resource = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in said.items()]}
    points = [{"timeUnixNano": str(time.time_ns()), "asInt": "1"}]
    requests = {
        "name": REQUESTS.name,
        "unit": REQUESTS.unit,
        "sum": {"aggregationTemporality": 1, "dataPoints": points},
    }
    report = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [requests]}]}]}
    answer = fleet.call("POST", "/v1/metrics", token, json=report)
    assert (answer.status_code, answer.json()["error"]["detail"]["field"]) == (403, "tailwright.pool")
    said["tailwright.pool"] = "chat"
    resource["attributes"] = [{"key": key, "value": {"stringValue": value}} for key, value in said.items()]
    assert fleet.call("POST", "/v1/metrics", token, json=report).status_code == 200


def test_a_node_moves_by_enrolling_again_with_its_own_token(fleet: Fleet) -> None:
    state = fleet.folder / "w3"
    with fleet.agent("w3", state):
        wait_for("w3 is connected", lambda: fleet.connected("w3"))
    before = json.loads((state / "credentials.json").read_text())
    # It was killed, so that nothing said goodbye: only its own token opens the name again.
    assert fleet.enrol("w3", pool="other").status_code == 409
    with fleet.agent("w3", state, "--pool", "batch", "--role", "trial"):
        wait_for("w3 has moved", lambda: fleet.node("w3").get("pool") == "batch" and fleet.connected("w3"))
    after = json.loads((state / "credentials.json").read_text())
    assert (after["pool"], after["role"]) == ("batch", "trial") and after["token"] != before["token"]
    assert fleet.call("POST", "/v1/metrics", before["token"]).status_code == 401


def test_an_agent_fills_neither_ledger_nor_pools(fleet: Fleet) -> None:
    """What it says of its configuration, five hundred times; and pools by the hundred."""
    token = fleet.enrol("w5").json()["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-protobuf"}
    agent = Agent("w5", "chat")
    for number in range(100):
        agent.pool = f"pool-{number}"
        answer = fleet.http.post("/v1/opamp", content=agent.full().SerializeToString(), headers=headers)
        reply = opamp_pb2.ServerToAgent.FromString(answer.content)
        assert "was enrolled with 'chat'" in reply.error_response.error_message
    for number in range(100):
        failed = agent.status(f"{number}:x".encode(), opamp_pb2.RemoteConfigStatuses_FAILED, f"no {number}")
        assert fleet.http.post("/v1/opamp", content=failed.SerializeToString(), headers=headers).status_code == 200
    told = [one for one in fleet.ledger("node.config_failed") if one["subject"] == "node/w5"]
    assert 10 <= len(told) <= 20, "ten a minute, in one minute or two"
    assert fleet.node("w5")["pool"] == "chat"
    assert not [one for one in fleet.ledger("node.moved") if one["subject"] == "node/w5"]
    counted = fleet.http.get("/metrics").text
    assert "tailwright_opamp_events_left_out_total 0" not in counted


def test_a_nodes_token_is_exchanged_while_it_works(tmp_path: Path) -> None:
    state = tmp_path / "w6"
    with Fleet(tmp_path).running("--node-token-days", "0.00002") as fleet, fleet.agent("w6", state):
        wait_for("three exchanges", lambda: len(fleet.ledger("token.rotated")) >= 3)
        stored = json.loads((state / "credentials.json").read_text())["token"]
        assert fleet.call("GET", "/api/v1/tokens/self", stored).json()["node"] == "w6"
        tokens = fleet.call("GET", "/api/v1/tokens?limit=500", fleet.token("admin-token")).json()["items"]
        live = [one for one in tokens if one["node"] == "w6" and one["revoked_at"] is None]
        assert len(live) <= 2
        wait_for("it is connected with it", lambda: fleet.connected("w6"))
        assert not fleet.ledger("node.claimed")
        assert len(fleet.ledger("node.enrolled")) == 1


def test_a_copied_state_folder_is_told_as_two_agents(fleet: Fleet, copied: str) -> None:
    (entry, *_) = wait_for(
        "the claim", lambda: [one for one in fleet.ledger("node.claimed") if one["subject"] == f"node/{copied}"]
    )
    assert "holds its token" in entry["message"]
    wait_for("the alert", lambda: fleet.alerts("node_claimed", copied))
