"""The agent as a process beside a vLLM without the plugin: killed again and again it loses and doubles nothing."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.contract import metrics
from tests.agents.agent.fake_service import FakeService
from tests.agents.backends.vllm.conftest import StandInServer
from tests.agents.conftest import AgentProcess
from tests.agents.served_app import ServedApp

pytestmark = pytest.mark.slow

REQUESTS = metrics.REQUESTS.name


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def agent(server: StandInServer, service: FakeService, tmp_path: Path) -> Iterator[AgentProcess]:
    server.start(plugin=False)
    settings = {"backend": "vllm", "vllm_scrape_interval_s": "0.5"}
    with ServedApp(service.app) as served:
        made = AgentProcess(server.url, served.url, tmp_path / "state", **settings)
        yield made
        if made.process is not None and made.process.poll() is None:
            made.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def test_an_agent_that_is_killed_goes_on_where_its_reports_ended(
    agent: AgentProcess, server: StandInServer, service: FakeService, tmp_path: Path
) -> None:
    agent.start()
    until(lambda: service.newest("health") is not None and (tmp_path / "state/vllm/scrape.json").exists())
    server.complete(6)
    until(lambda: service.counts[REQUESTS] == 6)
    for round_ in range(3):
        server.complete(3)
        agent.kill()
        server.complete(2)
        agent.start()
        expected = 6 + 5 * (round_ + 1)
        until(lambda expected=expected: service.counts[REQUESTS] >= expected)  # type: ignore[misc]
        assert service.counts[REQUESTS] == expected
    assert agent.end() == 0
    assert service.counts[REQUESTS] == 21
    assert service.counts[metrics.OUTPUT_TOKENS.name] == 21 * 6
    assert service.counts[metrics.E2E.name] == service.counts[metrics.TTFT.name] == 21
    assert service.counts[metrics.EVENTS_MISSED.name] == 0
