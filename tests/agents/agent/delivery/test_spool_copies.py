"""Spools that are copied, put back and started again, against a model of the service: each report counts once."""

import asyncio
import copy
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import Outcome, Shipper
from agents.agent.delivery.spool import Slot, Spool
from agents.agent.delivery.spool_state import Owner
from agents.agent.reports.body import Body
from agents.agent.settings import AgentSettings
from agents.backends.base import Position
from controlplane.contract import metrics
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import MEDIA_TYPE, PackedNumber, PackedReport, Section
from controlplane.telemetry.reports.stream_identity import Seen, Sighting, StreamIdentity, mark

LIMIT = 10**7
ANSWERS = {Sighting.OTHER: "other_content", Sighting.TOO_OLD: "too_old"}


class Service:
    """What it counted, by the number that a report carries. Some answers are lost, and some forms are not taken."""

    def __init__(self) -> None:
        self.seen: dict[bytes, Seen] = {}
        self.counted: Counter[int] = Counter()
        self.chance = random.Random(0)

    def take(self, request: httpx.Request) -> httpx.Response:
        node = request.headers["Authorization"].removeprefix("Bearer ")
        identity, of, number = read(request, node)
        assert of == node, "403 for ever"
        sighting, seen = mark(self.seen.get(identity.key, Seen()), identity.ordinal, identity.short)
        if sighting is Sighting.NEW:
            self.counted[number] += 1
            self.seen[identity.key] = seen
        headers = {"Tailwright-Accept": self.chance.choice(["packed-1", ""])}
        if self.chance.random() < 0.2:
            return httpx.Response(503, headers=headers)
        if sighting in ANSWERS:
            error = {"code": ANSWERS[sighting], "message": "not counted", "detail": {}}
            return httpx.Response(409, json={"error": error}, headers=headers)
        assert self.counted[number] == 1, "acknowledged, and not counted"
        return httpx.Response(200, headers=headers)


def body_of(node: str, number: int, slot: Slot) -> tuple[Body, None]:
    section = Section(340_000_000, gauges=(PackedNumber(0, 0, float(number)),))
    kinds = ((metrics.SPOOL_DEPTH.name, metrics.MetricKind.GAUGE),)
    report = PackedReport(slot.stream, slot.ordinal, {metrics.NODE.name: node}, kinds, ({},), (section,))
    return Body.packed(packed_report.encode(report)), None


def read(request: httpx.Request, node: str) -> tuple[StreamIdentity, str, int]:
    """Who a report is, its node and its number."""
    plain = Body(request.content, request.headers["Content-Type"], request.headers["Content-Encoding"]).decoded()
    if request.headers["Content-Type"] == MEDIA_TYPE:
        report = packed_report.decode(plain)
        name = StreamIdentity(report.stream, report.ordinal, packed_report.digest_of(plain), node)
        return name, report.resource[metrics.NODE.name], int(report.sections[0].gauges[0].value)
    name = StreamIdentity(*packed_report.parse_report_header(request.headers["Tailwright-Report"]), node)
    (block,) = ExportMetricsServiceRequest.FromString(plain).resource_metrics
    return (
        name,
        block.resource.attributes[0].value.string_value,
        int(block.scope_metrics[0].metrics[0].gauge.data_points[0].as_double),
    )


@dataclass
class Agent:
    """One process: its folder, and what it has in memory."""

    node: str
    folder: Path
    spool: Spool
    shipper: Shipper


class Copies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.service = Service()
        self.numbers = 0
        self.folders = 0
        self.agents = [self._started("n0", self._new_folder())]

    def _new_folder(self) -> Path:
        self.folders += 1
        return self.root / str(self.folders)

    def _started(self, node: str, folder: Path, spool: Spool | None = None) -> Agent:
        spool = spool or Spool(folder, LIMIT, Owner(node, "m"))
        http = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(self.service.take))
        enrolment = Enrolment(AgentSettings(node=node, state_dir=folder), http)
        enrolment.current = Credentials(node, "p", "serving", node, "00")
        return Agent(node, folder, spool, Shipper(spool, http, enrolment))

    def _at(self, place: int) -> int:
        return place % len(self.agents)

    @rule(place=st.integers(0, 99), count=st.integers(1, 3))
    def reports(self, place: int, count: int) -> None:
        self._report(self.agents[self._at(place)], count)

    def _report(self, agent: Agent, count: int) -> None:
        for _ in range(count):
            self.numbers += 1
            agent.spool.append(partial(body_of, agent.node, self.numbers), Position("boot", self.numbers))

    @rule(place=st.integers(0, 99), tries=st.integers(1, 6), seed=st.integers(0, 99))
    def sends(self, place: int, tries: int, seed: int) -> None:
        self.service.chance = random.Random(seed)
        agent = self.agents[self._at(place)]
        for _ in range(tries):
            asyncio.run(agent.shipper.send_one())

    def _send_all(self, agent: Agent) -> None:
        while agent.spool.waiting():
            assert asyncio.run(agent.shipper.send_one()) is not Outcome.REFUSED

    @rule(place=st.integers(0, 99))
    def restarts(self, place: int) -> None:
        agent = self.agents[self._at(place)]
        self.agents[self._at(place)] = self._started(agent.node, agent.folder)

    @rule(place=st.integers(0, 99), to=st.sampled_from(["another node", "the same node", "with its process"]))
    def copied(self, place: int, to: str) -> None:
        """cp -a, and a process on the copy: a new one, or the copy of the one that runs."""
        if len(self.agents) > 4:
            return
        agent, folder = self.agents[self._at(place)], self._new_folder()
        shutil.copytree(agent.folder, folder)
        node = f"n{folder.name}" if to == "another node" else agent.node
        running = in_memory(agent.spool, folder) if to == "with its process" else None
        self.agents.append(self._started(node, folder, running))

    @rule(place=st.integers(0, 99), before=st.integers(0, 3), after=st.integers(0, 3), running=st.booleans())
    def put_back(self, place: int, before: int, after: int, running: bool) -> None:
        """What was sent meanwhile, the disk does not know; nor does the process, if it is put back as well."""
        agent, kept = self.agents[self._at(place)], self._new_folder()
        shutil.copytree(agent.folder, kept)
        process = in_memory(agent.spool, agent.folder)
        self._report(agent, before)
        self._send_all(agent)
        shutil.rmtree(agent.folder)
        shutil.copytree(kept, agent.folder)
        again = self._started(agent.node, agent.folder, process if running else None)
        self.agents[self._at(place)] = again
        self._report(again, after)

    def teardown(self) -> None:
        for agent in self.agents:
            self._send_all(agent)
            assert agent.spool.refused == 0
        assert self.service.counted == Counter(range(1, self.numbers + 1))
        shutil.rmtree(self.root)


def in_memory(spool: Spool, folder: Path) -> Spool:
    """What a process holds of its spool, over the same files in a folder."""
    found = copy.copy(spool)
    found._streams, found._sizes = list(spool._streams), dict(spool._sizes)
    found._folder, found._refused_folder = folder, folder / "refused"
    found._state_file = folder / "state.json"
    return found


TestCopies = Copies.TestCase
TestCopies.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
