"""Records a conversation of today's agent with today's service: `python -m tests.skew.record_agent`, once a release.

The agent's own code says everything: enrolment, spool, shipper, OpAMP client. Made up are the engine's events, the
node's state, and the time. A released version is not recorded again: what has been said has been said.
"""

import asyncio
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from opentelemetry._opamp.proto import opamp_pb2

from agents.agent.agent import agent_version
from agents.agent.control.offer import ConfigOutcome, parse_offer
from agents.agent.control.opamp_client import OpampClient
from agents.agent.control.opamp_messages import NodeSnapshot
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import Shipper
from agents.agent.delivery.spool import Slot, Spool
from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.body import Body
from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.report import AgentCounts, NodeIdentity, body_of
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.request_spans import encode_spans
from agents.agent.settings import AgentSettings
from agents.backends.base import EngineHealth
from controlplane.app.secrets_files import ADMIN, ENROLMENT, read
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract import metrics
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from tests.agents.backends.fake_engine import request_events
from tests.skew.conversation import FOLDER, Clock, Conversation, Exchange, Message, Who

NODE, POOL = "skew-1", "skew"
TIME = datetime(2026, 3, 2, 12, 0, 0, tzinfo=UTC)
BEGAN_S = int((TIME - timedelta(seconds=100)).timestamp()) // 5 * 5
LEFT_OUT = {"accept", "accept-encoding", "authorization", "connection", "content-length", "date", "host", "user-agent"}


class Recorder(httpx.AsyncBaseTransport):
    """Passes requests on, and writes them down with their answers."""

    def __init__(self, inner: httpx.AsyncBaseTransport, into: list[Exchange], clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._into = into
        self.bearers: dict[str, Who] = {}
        self.more = asyncio.Event()
        """Set with each exchange."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        said = await request.aread()
        answer = await self._inner.handle_async_request(request)
        answered = await answer.aread()
        who = self.bearers.get(request.headers["Authorization"].removeprefix("Bearer "), "agent")
        path = request.url.raw_path.decode()
        messages = Message(_kept(request.headers), said), Message(_kept(answer.headers), _without_secrets(answered))
        self._into.append(
            Exchange(self._clock(), who, request.method, path, messages[0], answer.status_code, messages[1])
        )
        self.more.set()
        return httpx.Response(answer.status_code, headers=answer.headers, content=answered)


def _kept(headers: httpx.Headers) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in LEFT_OUT}


def _without_secrets(answered: bytes) -> bytes:
    """The tokens and keys of an answer, as many characters of nothing."""
    if b"Bearer " in answered:
        message = opamp_pb2.ServerToAgent.FromString(answered)
        (header,) = message.connection_settings.opamp.headers.headers
        header.value = "Bearer " + "-" * len(header.value.removeprefix("Bearer "))
        return bytes(message.SerializeToString())
    if b"workload_key" not in answered:
        return answered
    content = json.loads(answered)
    return json.dumps({**content, **{name: "-" * len(content[name]) for name in ("token", "workload_key")}}).encode()


async def record(folder: Path) -> Conversation:
    """`folder` is empty: the service's data and the agent's state lie there for a while."""
    made, clock = Conversation(agent_version()), Clock(TIME)
    app = create_app(ServiceSettings(data_dir=folder / "data"), clock)
    recorder = Recorder(httpx.ASGITransport(app), made.exchanges, clock)
    enrolment_token, admin_token = read(folder / "data", ENROLMENT), read(folder / "data", ADMIN)
    recorder.bearers = {enrolment_token: "enrolment", admin_token: "operator"}
    (folder / "state").mkdir()
    settings = AgentSettings(
        node=NODE, pool=POOL, role="trial", state_dir=folder / "state", enrolment_token=enrolment_token
    )
    operator_headers = {"Authorization": f"Bearer {admin_token}"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=recorder, base_url="http://127.0.0.1:7300") as http,
        httpx.AsyncClient(transport=recorder, base_url="http://127.0.0.1:7300", headers=operator_headers) as operator,
    ):
        enrolment = Enrolment(settings, http)
        await enrolment.ensure()
        await _reports(folder / "state" / "spool", http, enrolment)
        agent = Agent(http, enrolment, recorder.more)
        await _configuration(agent, operator)
        end = (TIME + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for metric in ("ttft", "e2e", "itl"):
            question = f"/api/v1/quantiles?metric={metric}&q=0.5,0.99&window=10m&end={end}&by=node,model,revision"
            await operator.get(question)
        await operator.get(f"/api/v1/nodes/{NODE}")
        clock.now += timedelta(days=31)
        token = enrolment.current
        await agent.another()  # It is given another token,
        await agent.another()  # and speaks with that one.
        assert enrolment.current is not None and enrolment.current != token
        await agent.leave()
    return made


async def _reports(folder: Path, http: httpx.AsyncClient, enrolment: Enrolment) -> None:
    """Three intervals of an engine's requests, then two of one that tells buckets and traces; one report twice."""
    spool, table = Spool(folder, 10**8), ReportTable()
    assert enrolment.current is not None
    key, identity = enrolment.current.key_bytes, NodeIdentity(NODE, POOL, "eu-1")
    accumulator = Accumulator(None, 5.0)
    accumulator.hello({"kind": "hello", "boot": "boot-1", "oldest": 1, "model": "model-1"})
    for seq, event in enumerate(_events(), 1):
        accumulator.count({**event, "seq": seq})  # type: ignore[typeddict-item]
    accumulator.seal()
    for tally in accumulator.take():
        spans = encode_spans(tally, identity, key)

        def encode(slot: Slot, tally: Any = tally, spans: bytes = spans) -> tuple[Body, Body | None]:
            host = {metrics.HOST_STEAL: 0.01, metrics.HOST_MEMORY_AVAILABLE: 8e9}
            counts = AgentCounts(spool.depth, slot.dropped, ClockReading(0.0004, 0.001), {tally.own_window: host})
            body = body_of(tally, identity, slot.stream, slot.ordinal, counts, table)
            return body, Body.otlp(spans) if spans else None

        assert tally.position is not None
        spool.append(encode, tally.position)
    shipper = Shipper(spool, http, enrolment)
    first = spool.waiting()[1]
    again = spool._path(first).read_bytes()
    while spool.waiting():
        await shipper.send_one()
    assert not spool.refused and shipper.acknowledged == 5, shipper.last_error
    spool._path(first).write_bytes(again)  # As after a power cut: sent again, and a repeat.
    spool._sizes[first] = len(again)
    await shipper.send_one()


def _events() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(30):
        reason = "timeout" if number % 11 == 10 else "stop"
        made = request_events(BEGAN_S + number / 2, number, cached_tokens=64 * (number % 2), reason=reason)
        found += [{**event, "tenant": "acme"} if number % 3 == 0 and "ttft" in event else event for event in made]
    for number in range(2):
        time_s = BEGAN_S + 15 + 5 * number + 1.0
        shared = {"time": time_s, "revision": 3}
        buckets = {"bounds": [0.3, 1.0, 2.5], "counts": [2, 1, 0, 1], "total": 5.0}
        found.append({"kind": "buckets", "metric": "ttft", **buckets, **shared})
        found.append({"kind": "counts", "counts": {"output_tokens": 40}, "requests": {"stop": 4}, **shared})
        parts = {"e2e": 1.0, "ttft": 0.2, "tpot": 0.2, "queue": 0.1, "prefill": 0.05, "decode": 0.8}
        sizes = {"prompt_tokens": 100, "output_tokens": 5, "unaccounted": 0.05}
        head = {"kind": "traced", "request_id": f"traced-{number}", "arrival": time_s - 1.0}
        found.append({**head, **parts, **sizes, **shared})
    return found


class Agent:
    """The agent's OpAMP client over the node's made-up state. `another` has it send its next message."""

    def __init__(self, http: httpx.AsyncClient, enrolment: Enrolment, more: asyncio.Event) -> None:
        knobs: dict[str, Any] = {"max_num_batched_tokens": 512, "max_num_seqs": 32, "prefill_chunk_size": 256}
        knobs |= {"num_speculative_tokens": 0, "quantization": "none"}
        self._effective = EffectiveConfig(revision=0, knobs=knobs, sources=dict.fromkeys(knobs, "config"))
        self._outcome = ConfigOutcome()
        self.engine = EngineHealth(True)
        self._http, self._enrolment, self._more = http, enrolment, more
        # Nothing listens at that port: after the WebSocket's failure the client polls over HTTP.
        self._client = OpampClient(
            "http://127.0.0.1:1", http, enrolment, self._snapshot, self._on_offer, heartbeat_s=3600
        )
        self._running = asyncio.create_task(self._client.run())

    async def another(self) -> None:
        self._more.clear()
        self._client.changed()
        await asyncio.wait_for(self._more.wait(), 30)

    async def leave(self) -> None:
        self._running.cancel()
        await self._http.post(
            "/v1/opamp",
            content=self._client._builder.disconnect().SerializeToString(),
            headers={"Content-Type": "application/x-protobuf", **self._enrolment.headers},
        )

    def _on_offer(self, offer_hash: bytes, body: bytes) -> None:
        wanted = parse_offer(offer_hash, body)
        if wanted.config.max_num_seqs == 1:
            self._outcome = ConfigOutcome(offer_hash, ConfigStatus.FAILED, "out of memory")
            return
        self._effective = EffectiveConfig(revision=wanted.revision, knobs=wanted.config.knobs())
        self._outcome = ConfigOutcome(offer_hash, ConfigStatus.APPLIED)

    def _snapshot(self) -> NodeSnapshot:
        return NodeSnapshot(
            node=NODE,
            pool=POOL,
            role="trial",
            backend="embedded",
            engine_url="http://127.0.0.1:7400",
            version=agent_version(),
            started_ns=BEGAN_S * 10**9,
            model="model-1",
            engine=self.engine,
            spool=EngineHealth(True),
            spool_status="0 reports waiting",
            unaccounted_share=0.002,
            outcome=self._outcome,
            effective=self._effective,
        )


async def _configuration(agent: Agent, operator: httpx.AsyncClient) -> None:
    """Full state, a heartbeat, an offer that is applied, one that fails, and an engine that is down."""
    await agent.another()
    await agent.another()  # A heartbeat.
    for wanted in ({"max_num_seqs": 8}, {"max_num_seqs": 1}):
        await operator.put(f"/api/v1/nodes/{NODE}/trial-config", json={"knobs": wanted})
        await agent.another()  # Gets the offer,
        await agent.another()  # and says what became of it.
    agent.engine = EngineHealth(False, "GET /health: connection refused")
    await agent.another()


def main() -> None:
    file = FOLDER / f"{agent_version()}.json"
    if file.exists():
        sys.exit(f"{file.name} is there: a version is recorded once, with its release; remove the file before that")
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(record(Path(folder)))
    FOLDER.mkdir(exist_ok=True)
    made.save(file)
    for one in made.exchanges:
        print(f"{one.status} {one.who:<9} {one.method} {one.path} {len(one.said.body)} B -> {len(one.answered.body)} B")


if __name__ == "__main__":
    main()
