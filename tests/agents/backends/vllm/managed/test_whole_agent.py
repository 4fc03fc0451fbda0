"""The agent as a real process with a managed node: the control plane's wishes go all the way, and so do failures."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry._opamp.proto import opamp_pb2

from controlplane.contract import metrics
from controlplane.contract.knobs import EngineConfig, Quantization
from tests.agents.agent.fake_service import FakeService
from tests.agents.backends.vllm.managed.managed_node import Clients, Node, until
from tests.agents.conftest import AgentProcess
from tests.agents.served_app import ServedApp

pytestmark = pytest.mark.slow

GOOD = EngineConfig(max_num_batched_tokens=128, max_num_seqs=32)


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def agent(node: Node, service: FakeService, tmp_path: Path) -> Iterator[AgentProcess]:
    node.state_dir = tmp_path / "agent/vllm"
    settings = {"backend": "vllm", "vllm_node_file": str(node.file)}
    with ServedApp(service.app) as served:
        made = AgentProcess("http://127.0.0.1:1", served.url, tmp_path / "agent", **settings)
        yield made
        if made.process is not None and made.process.poll() is None:
            made.kill()


def offer(revision: int, config: EngineConfig) -> opamp_pb2.AgentRemoteConfig:
    body = {"revision": revision, "hash": f"h{revision}", "knobs": config.knobs()}
    made = opamp_pb2.AgentRemoteConfig(config_hash=f"{revision}".encode())
    made.config.config_map["engine.json"].body = json.dumps(body).encode()
    return made


def test_a_revision_is_applied_a_broken_one_reported_and_a_terminated_agent_leaves_the_server(
    node: Node, agent: AgentProcess, service: FakeService
) -> None:
    def ended(offered: bytes, status: int) -> bool:
        told = service.status()
        return bool(told.last_remote_config_hash == offered and told.status == status)

    async def run() -> None:
        agent.start()
        await until(lambda: (health := service.newest("health")) is not None and health.healthy)
        with Clients(node.url) as clients:
            service.offer = offer(3, GOOD)
            await until(lambda: ended(b"3", opamp_pb2.RemoteConfigStatuses_APPLIED))
            service.offer = offer(4, GOOD.model_copy(update={"quantization": Quantization.FP8}))
            await until(lambda: ended(b"4", opamp_pb2.RemoteConfigStatuses_FAILED))
            assert "fp8 wants a device that has it" in service.status().error_message
            assert agent.end() == 0
            await clients.some_more()
        assert not clients.failed
        serving = node.living()
        assert len(serving) == 1 and serving[0].revision == 3
        assert 0 < service.counts[metrics.REQUESTS.name] <= clients.answered

    asyncio.run(run())
