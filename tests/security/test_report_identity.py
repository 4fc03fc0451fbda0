"""Nobody's reports take the place of another's: foreign tokens and copied state folders, on a real service (SEC H7)."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import Outcome, Shipper
from agents.agent.delivery.spool import Slot, Spool
from agents.agent.delivery.spool_state import Owner
from agents.agent.reports.body import Body
from agents.agent.settings import AgentSettings
from agents.backends.base import Position
from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import MEDIA_TYPE, PackedReport, Section
from tests.controlplane.telemetry.packed_reports import histogram
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STREAM = bytes(range(16))


class Service:
    """A control plane as a process, and what its API says was stored."""

    def __init__(self, folder: Path) -> None:
        self.data, port = folder / "data", free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = f"-m controlplane.command.main up --no-tuner --no-dashboard --port {port} --data-dir {self.data}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command.split()], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def settings(self, node: str, state_dir: Path) -> AgentSettings:
        token = (self.data / "enrolment-token").read_text().strip()
        return AgentSettings(node=node, pool="chat", state_dir=state_dir, server_url=self.url, enrolment_token=token)

    def token(self, node: str) -> str:
        bearer = {"Authorization": f"Bearer {(self.data / 'enrolment-token').read_text().strip()}"}
        body = {"node": node, "pool": "chat", "backend": "embedded", "role": "serving"}
        answer = self.http.post("/api/v1/enrol", json=body, headers=bearer)
        return str(answer.raise_for_status().json()["token"])

    def send(self, token: str, body: Body) -> httpx.Response:
        headers = {**body.headers, "Authorization": f"Bearer {token}"}
        return self.http.post("/v1/metrics", content=body.content, headers=headers)

    def stored(self, node: str) -> int:
        """Requests of a node that were counted."""
        client = Client(self.url, (self.data / "admin-token").read_text().strip())
        found = client.quantiles(metric="ttft", q="0.5", window="10m", node=node)
        return sum(series.count for series in found.series)

    def conflicts(self) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        name = 'tailwright_ingest_reports_conflicting_total{reason="other"} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = Service(tmp_path_factory.mktemp("service"))
    try:
        wait_for("the service is ready", lambda: found.http.get("/readyz").status_code == 200)
        yield found
    finally:
        found.process.terminate()
        found.process.wait(30)


def body_of(node: str, requests: int, slot: Slot) -> tuple[Body, None]:
    """A report of so many requests, of the present."""
    section = Section(int(time.time()) // 5 - 2, (histogram([0.1] * requests),))
    kinds = ((metrics.TTFT.name, metrics.MetricKind.HISTOGRAM),)
    named = {metrics.NODE.name: node, metrics.POOL.name: "chat"}
    return Body.packed(
        packed_report.encode(PackedReport(slot.stream, slot.ordinal, named, kinds, ({},), (section,)))
    ), None


class Agent:
    """An agent's sending half, over its state folder; enrolled by it, or anew."""

    def __init__(self, service: Service, node: str, folder: Path) -> None:
        self.node, self.folder = node, folder
        self._settings = service.settings(node, folder)
        self.spool = Spool(folder / "spool", 10**7, Owner.here(node))

    def report(self, *counts: int) -> None:
        for count in counts:
            self.spool.append(partial(body_of, self.node, count), Position("boot", 1))

    def send(self) -> None:
        async def run() -> None:
            async with httpx.AsyncClient(base_url=self._settings.server_url, trust_env=False) as http:
                enrolment = Enrolment(self._settings, http)
                await enrolment.ensure()
                shipper = Shipper(self.spool, http, enrolment)
                while self.spool.waiting():
                    assert await shipper.send_one() in (Outcome.ACKNOWLEDGED, Outcome.RENEWED), shipper.last_error

        asyncio.run(run())
        assert self.spool.refused == 0


def test_another_nodes_token_takes_no_place_of_a_stream(service: Service) -> None:
    mallory, victim = service.token("mallory"), service.token("victim")
    before = service.conflicts()
    for ordinal in (1, 2, 3):
        assert service.send(mallory, body_of("mallory", 1, Slot(STREAM, ordinal, 0))[0]).status_code == 200
    for ordinal in (1, 2, 3, 4):
        assert service.send(victim, body_of("victim", 3, Slot(STREAM, ordinal, 0))[0]).status_code == 200
    assert (service.stored("mallory"), service.stored("victim")) == (3, 12)
    # In another's name it is refused, and takes no place either.
    assert service.send(mallory, body_of("victim", 1, Slot(STREAM, 5, 0))[0]).status_code == 403
    assert service.send(victim, body_of("victim", 3, Slot(STREAM, 5, 0))[0]).status_code == 200
    assert (service.stored("victim"), service.conflicts()) == (15, before)


@pytest.mark.parametrize("in_form", ["packed", "otlp"])
def test_the_same_name_with_other_content_is_told_so(service: Service, in_form: str) -> None:
    node = f"told-{in_form}"
    token, before = service.token(node), service.conflicts()
    first, other = (body_of(node, count, Slot(STREAM, 1, 0))[0] for count in (1, 2))
    assert service.send(token, first).status_code == 200
    if in_form == "packed":
        answer = service.send(token, other)
    else:
        name = packed_report.report_header(STREAM, 1, packed_report.digest_of(other.decoded()))
        headers = {"Content-Type": "application/x-protobuf", packed_report.REPORT_HEADER: name}
        answer = service.http.post(
            "/v1/metrics", content=otlp(other), headers={**headers, "Authorization": f"Bearer {token}"}
        )
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_content")
    assert service.send(token, first).status_code == 200
    assert (service.stored(node), service.conflicts()) == (1, before + 1)


def otlp(body: Body) -> bytes:
    from agents.agent.reports.otlp_report import request_of

    assert body.media_type == MEDIA_TYPE
    made: bytes = request_of(packed_report.decode(body.decoded())).SerializeToString()
    return made


@pytest.mark.parametrize("name", ["gpu-1", "gpu-clone"])
def test_a_copied_state_folder_loses_and_doubles_nothing(service: Service, tmp_path: Path, name: str) -> None:
    node, clone = f"{name}-a", f"{name}-a" if name == "gpu-1" else f"{name}-b"
    first = Agent(service, node, tmp_path / "agent")
    first.report(1, 1)
    first.send()
    first.report(1, 1, 1)  # Waits in both.
    shutil.copytree(first.folder, tmp_path / "copy")
    second = Agent(service, clone, tmp_path / "copy")
    second.report(1, 1)
    first.report(1, 1, 1, 1)
    second.send()
    first.send()
    wanted = {node: 11} if clone == node else {node: 9, clone: 2}
    assert {one: service.stored(one) for one in wanted} == wanted
    assert second.spool.foreign == (0 if clone == node else 3)


def test_a_process_that_is_put_back_with_its_folder_loses_nothing(service: Service, tmp_path: Path) -> None:
    """As a virtual machine's snapshot does it: memory and disk are of before, the service is not."""
    before = service.conflicts()
    agent = Agent(service, "snapshot", tmp_path / "agent")
    agent.report(1)
    agent.send()
    shutil.copytree(agent.folder, tmp_path / "kept")
    kept = dict(vars(agent.spool), _sizes={}, _streams=list(agent.spool._streams))
    agent.report(1, 1)
    agent.send()
    shutil.rmtree(agent.folder)
    shutil.copytree(tmp_path / "kept", agent.folder)
    vars(agent.spool).update(kept)
    agent.report(2, 2, 2)
    agent.send()
    assert service.stored("snapshot") == 3 + 6
    assert (service.conflicts() - before, agent.spool.renewed) == (2, 2)
