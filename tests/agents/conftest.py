"""A fake engine and a fake service, served over real HTTP, and an agent process between them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.agent.fake_service import FakeService
from tests.agents.backends.fake_engine import FakeEngine
from tests.agents.served_app import ServedApp

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def served_engine(engine: FakeEngine) -> Iterator[ServedApp]:
    with ServedApp(engine.app) as served:
        yield served
        engine.gone = True


@pytest.fixture
def served_service(service: FakeService) -> Iterator[ServedApp]:
    with ServedApp(service.app) as served:
        yield served


class AgentProcess:
    """`python -m agents` with settings that make it quick; `kill` is kill -9."""

    def __init__(self, engine_url: str, server_url: str, state_dir: Path, **settings: str) -> None:
        token_file = state_dir.with_name(f"{state_dir.name}-control-token")
        token_file.parent.mkdir(parents=True, exist_ok=True)
        token_file.write_text("a-token-that-stand-ins-take")
        of_engine = {"engine_control_url": engine_url, "engine_control_token_file": str(token_file)}
        self._settings = {
            "node": "node-a",
            **(of_engine if settings.get("backend", "embedded") == "embedded" else {}),
            "pool": "pool-a",
            "engine_url": engine_url,
            "server_url": server_url,
            "state_dir": str(state_dir),
            "enrolment_token": "enrol-me",
            "report_interval_s": "0.5",
            "report_grace_s": "0.1",
            "heartbeat_s": "0.5",
            "watch_interval_s": "0.3",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        flags = [part for name, value in self._settings.items() for part in (f"--{name.replace('_', '-')}", value)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TAILWRIGHT_")}
        self.process = subprocess.Popen([sys.executable, "-m", "agents.agent", *flags], cwd=ROOT, env=kept)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def end(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def agent_process(served_engine: ServedApp, served_service: ServedApp, tmp_path: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(served_engine.url, served_service.url, tmp_path / "state")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition holds."""

    def wait(condition: Callable[[], bool], limit_s: float = 15.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)

    return wait
