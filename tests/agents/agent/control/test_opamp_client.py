"""The OpAMP loop over both transports, and its messages."""

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry._opamp.proto import opamp_pb2

from agents.agent.control import opamp_client
from agents.agent.control.offer import ConfigOutcome
from agents.agent.control.opamp_client import OpampClient
from agents.agent.control.opamp_messages import (
    CAPABILITIES,
    MessageBuilder,
    NodeSnapshot,
    describe,
    news,
)
from agents.agent.delivery import credentials
from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.settings import AgentSettings
from agents.backends.base import EngineHealth
from controlplane.contract.bodies.nodes import ChangeCost, ConfigStatus, EffectiveConfig
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.reports.opamp import REPLACED_PAUSE_S, new_instance_uid
from tests.agents.agent.fake_service import FakeService
from tests.agents.served_app import ServedApp


def snapshot(**changed: object) -> NodeSnapshot:
    given: dict[str, object] = {
        "node": "node-a",
        "pool": "pool-a",
        "role": "serving",
        "backend": "embedded",
        "engine_url": "http://127.0.0.1:7400",
        "version": "1",
        "started_ns": 5,
        "engine": EngineHealth(True),
        "spool": EngineHealth(True),
        "outcome": ConfigOutcome(),
        "model": "model-a",
        "spool_status": "0 reports waiting",
        "unaccounted_share": 0.004321,
        "effective": EffectiveConfig(revision=2, knobs={"max_num_seqs": 4}, sources={"max_num_seqs": "scheduler"}),
        **changed,
    }
    return NodeSnapshot(**given)


def test_the_first_message_says_everything_and_the_next_what_changed() -> None:
    builder = MessageBuilder(b"u" * 16)
    first = builder.build(snapshot(), full=True)
    assert (first.sequence_num, first.capabilities, first.instance_uid) == (1, CAPABILITIES, b"u" * 16)
    identifying = {item.key: item.value.string_value for item in first.agent_description.identifying_attributes}
    assert identifying == {"service.instance.id": "node-a", "service.name": "tailwright-agent", "service.version": "1"}
    other = {item.key: item.value.string_value for item in first.agent_description.non_identifying_attributes}
    assert other == {
        "tailwright.pool": "pool-a",
        "tailwright.role": "serving",
        "tailwright.backend": "embedded",
        "gen_ai.request.model": "model-a",
        "tailwright.engine_url": "http://127.0.0.1:7400",
    }
    assert first.health.component_health_map["decomposition"].status == "0.004321"
    assert json.loads(first.effective_config.config_map.config_map["effective.json"].body) == {
        "revision": 2,
        "knobs": {"max_num_seqs": 4},
        "sources": {"max_num_seqs": "scheduler"},
        "cache_reset": 0,
    }
    told = describe(snapshot(engine_process="engine:a", engine_version="tailwright 1"))
    engine = {item.key: item.value.string_value for item in told.non_identifying_attributes if "engine." in item.key}
    assert engine == {"tailwright.engine.process": "engine:a", "tailwright.engine.version": "tailwright 1"}
    told = describe(snapshot(labels={"region": "eu-1", "rack": "r1"}))
    labels = {item.key: item.value.string_value for item in told.non_identifying_attributes}
    assert (labels["cloud.region"], labels["tailwright.label.rack"]) == ("eu-1", "r1")
    second = builder.build(snapshot(), full=False)
    parts = ("agent_description", "health", "effective_config", "remote_config_status")
    assert [second.HasField(part) for part in parts] == [False] * 4
    third = builder.build(snapshot(outcome=ConfigOutcome(b"h", ConfigStatus.FAILED, "why")), full=False)
    assert [third.HasField(part) for part in parts] == [False, False, False, True]
    assert third.remote_config_status.error_message == "why"
    assert third.sequence_num == 3


def test_what_a_backend_tells_of_changes_is_sent_and_read_back() -> None:
    told = EffectiveConfig(
        revision=2,
        knobs={"max_num_seqs": 4},
        change_classes={"quantization": ChangeClass.RESTART},
        live_limits={"max_num_seqs": 16},
        limits={"max_num_seqs": 16},
        formats=["none", "int8"],
        costs={ChangeClass.RESTART: ChangeCost(count=1, last_s=70.0, mean_s=70.0)},
    )
    message = MessageBuilder(b"u" * 16).build(snapshot(effective=told, cache_reset=None), full=True)
    body = message.effective_config.config_map.config_map["effective.json"].body
    assert "sources" not in json.loads(body)  # What is not known is left out.
    assert EffectiveConfig.model_validate_json(body) == told


def test_an_engine_that_serves_degraded_keeps_the_node_healthy() -> None:
    degraded = EngineHealth(True, degraded="no plugin: limits cannot be moved")
    message = MessageBuilder(b"u" * 16).build(snapshot(engine=degraded), full=True)
    assert message.health.healthy and message.health.status == "serving, degraded"
    engine = message.health.component_health_map["engine"]
    assert engine.healthy and engine.last_error == "no plugin: limits cannot be moved"
    assert not message.health.last_error


def test_an_engine_that_is_down_makes_the_node_unhealthy() -> None:
    message = MessageBuilder(b"u" * 16).build(snapshot(engine=EngineHealth(False, "gone")), full=True)
    assert not message.health.healthy
    assert message.health.last_error == "gone"
    assert not message.health.component_health_map["engine"].healthy


def test_an_instance_uid_is_a_version_7_uuid() -> None:
    uid = new_instance_uid(0x0123456789AB)
    assert uid[:6].hex() == "0123456789ab"
    assert (uid[6] >> 4, uid[8] >> 6, len(uid)) == (7, 2, 16)


@asynccontextmanager
async def connected(
    served: ServedApp, service: FakeService, tmp_path: Path, **options: Any
) -> AsyncIterator[tuple[OpampClient, list[tuple[bytes, bytes]]]]:
    offers: list[tuple[bytes, bytes]] = []
    async with httpx.AsyncClient(base_url=served.url) as http:
        settings = AgentSettings(node="node-a", state_dir=tmp_path, enrolment_token="enrol-me")
        enrolment = Enrolment(settings, http)
        enrolment.current = Credentials("node-a", "default", "serving", service.token, "00")
        said = options.pop("snapshot", snapshot)
        given = {"heartbeat_s": 0.1, **options}
        client = OpampClient(served.url, http, enrolment, said, lambda *offer: offers.append(offer), **given)
        task = asyncio.create_task(client.run())
        try:
            yield client, offers
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_heartbeats_and_offers_come_over_the_websocket(
    served_service: ServedApp, service: FakeService, tmp_path: Path
) -> None:
    service.offer = opamp_pb2.AgentRemoteConfig(config_hash=b"1:x")
    service.offer.config.config_map["engine.json"].body = b"{}"

    async def run() -> None:
        async with connected(served_service, service, tmp_path) as (client, offers):
            await until(lambda: len(service.agents) >= 4 and bool(offers))
            assert offers[0] == (b"1:x", b"{}")
            assert client.transport == "websocket"
        await until(lambda: service.agents[-1].HasField("agent_disconnect"))

    asyncio.run(run())
    assert set(service.transports) == {"websocket"}
    assert service.agents[0].HasField("agent_description")
    assert not service.agents[2].HasField("agent_description")


def test_what_moves_at_each_look_is_no_news() -> None:
    before = news(snapshot())
    assert news(snapshot(spool_status="1 reports waiting", unaccounted_share=0.5)) == before
    for change in (
        {"model": "b"},
        {"unaccounted_share": None},
        {"engine": EngineHealth(False)},
        {"outcome": ConfigOutcome(b"1:x")},
    ):
        assert news(snapshot(**change)) != before


def test_news_goes_out_at_once_and_the_rest_with_the_heartbeat(
    served_service: ServedApp, service: FakeService, tmp_path: Path
) -> None:
    said: dict[str, object] = {}

    async def run() -> None:
        async with connected(
            served_service, service, tmp_path, snapshot=lambda: snapshot(**said), heartbeat_s=3600.0
        ) as (client, _):
            await until(lambda: len(service.agents) == 1 and bool(client.transport))
            for depth in range(20):
                said["spool_status"] = f"{depth} reports waiting"
                client.changed()
                await asyncio.sleep(0)
            said["model"] = "model-b"
            client.changed()
            await until(lambda: len(service.agents) == 2)
            assert service.agents[1].HasField("agent_description")

    asyncio.run(run())


def test_a_lease_is_renewed_before_it_ends(served_service: ServedApp, service: FakeService, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(served_service, service, tmp_path, heartbeat_s=3600.0, quiet_s=lambda: 0.05):
            await until(lambda: len(service.agents) >= 3)

    asyncio.run(run())


def test_one_that_is_told_to_come_again_comes_then_and_does_not_poll(
    served_service: ServedApp, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(opamp_client, "within_the_second", lambda wait_s: waits.append(wait_s) or 0.01)
    service.comes_later = ["3", "70"]

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(service.agents) >= 2)

    asyncio.run(run())
    assert (waits, service.denied) == ([3.0, 70.0], 2) and set(service.transports) == {"websocket"}


def test_a_service_that_answers_nothing_is_connected_to_anew(
    served_service: ServedApp, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opamp_client, "UNANSWERED_S", 0.2)

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(service.agents) >= 2)
            service.hangs = True
            before = len(service.agents)
            await until(lambda: any(message.HasField("agent_description") for message in service.agents[before:]))
            service.hangs = False
            await until(lambda: service.transports[-1] == "websocket" and len(service.agents) > before + 4)

    asyncio.run(run())
    assert "http" not in service.transports


def test_the_full_state_is_sent_when_asked_for(served_service: ServedApp, service: FakeService, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(service.agents) >= 2)
            before = len(service.agents)
            service.ask_full_state = True
            await until(lambda: any(message.HasField("agent_description") for message in service.agents[before:]))

    asyncio.run(run())


@pytest.mark.parametrize("open_", [True, False])
def test_an_offered_token_is_kept_and_used(
    served_service: ServedApp, service: FakeService, tmp_path: Path, open_: bool
) -> None:
    service.websocket_open, service.next_token = open_, "node-token-2"

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: service.token == "node-token-2")
            before = len(service.agents)
            await until(lambda: len(service.agents) >= before + 3)

    asyncio.run(run())
    kept = credentials.load(tmp_path, "node-a")
    assert kept is not None and (kept.token, kept.pool, kept.workload_key) == ("node-token-2", "default", "00")
    assert service.enrolments == [], "it was not enrolled again"


def test_it_polls_while_there_is_no_websocket_and_returns_to_it(
    served_service: ServedApp, service: FakeService, tmp_path: Path
) -> None:
    service.websocket_open = False

    async def run() -> None:
        async with connected(served_service, service, tmp_path, websocket_retry_s=0.5) as (client, _):
            await until(lambda: service.transports.count("http") >= 3 and client.transport == "http")
            service.websocket_open = True
            await until(lambda: "websocket" in service.transports)

    asyncio.run(run())
    numbers = [message.sequence_num for message in service.agents]
    assert numbers == list(range(1, len(numbers) + 1))


def test_it_comes_back_after_the_service_was_gone(
    served_service: ServedApp, service: FakeService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(service.agents) >= 2)
            await asyncio.to_thread(served_service.stop)
            before = len(service.agents)
            await until(lambda: "cannot be opened" in caplog.text)
            await asyncio.to_thread(served_service.start)
            await until(lambda: len(service.agents) > before)
            assert service.agents[before].HasField("agent_description")

    asyncio.run(run())


def test_a_port_that_was_closed_a_moment_ago_makes_nobody_poll(
    served_service: ServedApp, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what comes back with the service in this moment polls it for a minute."""
    tries = 0

    def connect(*given: Any, **options: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
        return opamp_connect(*given, **options)

    opamp_connect = opamp_client.connect
    monkeypatch.setattr(opamp_client, "connect", connect)

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(service.agents) >= 2)

    asyncio.run(run())
    assert tries == 2 and set(service.transports) == {"websocket"}


def test_who_is_replaced_by_a_newer_connection_waits_before_it_comes_back(
    served_service: ServedApp,
    service: FakeService,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise two agents of one node would take it from each other for ever."""
    waits: list[float] = []

    def waited_s(wait_s: float) -> float:
        waits.append(wait_s)
        return 0.0

    monkeypatch.setattr(opamp_client, "spread_s", waited_s)
    service.replaced = True

    async def run() -> None:
        async with connected(served_service, service, tmp_path):
            await until(lambda: len(waits) >= 2)
            service.replaced = False
            before = len(service.agents)
            await until(lambda: len(service.agents) > before + 1)

    asyncio.run(run())
    assert set(waits) == {REPLACED_PAUSE_S}
    assert "a newer connection speaks for this node" in caplog.text


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b""])
def test_an_answer_that_cannot_be_read_is_passed_over(tmp_path: Path, content: bytes) -> None:
    settings = AgentSettings(node="a", state_dir=tmp_path)
    http = httpx.AsyncClient(base_url="http://service")
    offers: list[object] = []
    client = OpampClient(
        "http://service", http, Enrolment(settings, http), snapshot, lambda *offer: offers.append(offer)
    )
    uid = client._builder.instance_uid
    client._take(content)
    assert (offers, client._pause_s, client._builder.instance_uid) == ([], 0.0, uid)


def test_who_could_not_take_in_what_was_said_was_not_heard(tmp_path: Path) -> None:
    """Else a lease would be renewed by a service that cannot read what it wants."""
    settings = AgentSettings(node="a", state_dir=tmp_path)
    http = httpx.AsyncClient(base_url="http://service")
    heard: list[None] = []
    client = OpampClient(
        "http://service",
        http,
        Enrolment(settings, http),
        snapshot,
        lambda *_: None,
        on_heard=lambda: heard.append(None),
    )
    answer = opamp_pb2.ServerToAgent(instance_uid=b"u" * 16)
    client._take(answer.SerializeToString())
    answer.error_response.error_message = "pool: enrol again to move"
    client._take(answer.SerializeToString())
    assert len(heard) == 2
    answer.error_response.type = opamp_pb2.ServerErrorResponseType_Unavailable
    client._take(answer.SerializeToString())
    assert len(heard) == 2 and client._pause_s == 1.0
