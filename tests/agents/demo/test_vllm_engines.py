"""vLLM servers as the demo starts them, on the stand-in: what vLLM itself does is tested with the story."""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agents.agent.settings import AgentSettings
from agents.backends.vllm.doctor.installation import InstallationMissing
from agents.demo.plan import Plan
from agents.demo.processes import Processes
from agents.demo.vllm_engines import STAGES, VllmEngines, stage
from controlplane.contract.errors import BadRequest, Conflict
from tests.agents.backends.vllm.doctor.made_environment import make_environment
from tests.processes import answers, free_port
from tests.read_settings import read

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ROOT / "tests/agents/backends/vllm/stand_in.py"


def engines(folder: Path, executable: Path) -> VllmEngines:
    ports = (free_port(), free_port())
    plan = replace(Plan.on_vllm(executable), data_dir=folder, engine_ports=ports, trial_port=free_port())
    assert plan.vllm is not None
    return VllmEngines(plan, plan.vllm)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    executable = tmp_path / "vllm"
    executable.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    executable.chmod(0o755)
    return executable


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path / "logs")
    yield made
    made.stop()


def test_a_server_begins_with_the_good_configuration(
    tmp_path: Path, stand_in: Path, processes: Processes, wait_for: Callable[..., object]
) -> None:
    made = engines(tmp_path / "data", stand_in)
    port = free_port()
    made.start(processes, "node-1", port)
    wait_for("the server answers", lambda: answers(f"http://127.0.0.1:{port}/health"), 60)
    words = ["--node", "node-1", "--engine-url", f"http://127.0.0.1:{port}", *made.agent_flags("node-1")]
    settings = read(AgentSettings, "agent", words)
    assert settings.backend == "vllm" and settings.vllm_dir is not None
    told = json.loads((settings.vllm_dir / "effective.json").read_text())
    assert told["knobs"] == Plan.on_vllm(stand_in).good
    assert told["revision"] == 0 and not told["clamped"] and not told["error"]
    given = httpx.get(f"http://127.0.0.1:{port}/arguments").json()
    assert given["env"]["TAILWRIGHT_VLLM_DIR"] == str(settings.vllm_dir)
    assert "VLLM_CPU_KVCACHE_SPACE" not in given["env"]
    assert given["flags"]["enable-prefix-caching"] == "true"


def test_news_follow_the_log(tmp_path: Path, stand_in: Path, processes: Processes) -> None:
    log = tmp_path / "server.log"
    assert stage(log) == "loading vLLM"
    for sign, meaning in STAGES:
        with log.open("a") as file:
            file.write(f"(EngineCore pid=7) INFO 11-21 [core.py:1] {sign} and more\n")
        assert stage(log) == meaning
    assert stage(log) == ""


def test_a_missing_executable_or_plugin_is_told_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(InstallationMissing, match=r"/nowhere/vllm does not exist; run `make vllm`"):
        engines(tmp_path / "d", Path("/nowhere/vllm")).check()
    with pytest.raises(InstallationMissing, match="has no vLLM"):
        engines(tmp_path / "d", make_environment(tmp_path / "none", vllm=None)).check()
    with pytest.raises(InstallationMissing, match=r"lacks the plugin tailwright-vllm; run `make vllm`"):
        engines(tmp_path / "d", make_environment(tmp_path / "bare", plugin=None)).check()
    with pytest.raises(InstallationMissing, match=r"is version 0\.0\.1, not "):
        engines(tmp_path / "d", make_environment(tmp_path / "old", plugin="0.0.1")).check()
    assert not (tmp_path / "d").exists()


def test_what_would_keep_the_servers_from_starting_is_told_before(tmp_path: Path) -> None:
    executable = make_environment(tmp_path / "whole")
    engines(tmp_path / "d", executable).check()
    with pytest.raises(BadRequest, match="--data-dir: a socket's path may have 107 bytes"):
        engines(tmp_path / ("d" * 100), executable).check()
    taken = engines(tmp_path / "d", executable)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", taken._plan.trial_port))
        holder.listen()
        with pytest.raises(Conflict, match=f"--engine-ports: port {taken._plan.trial_port}: "):
            taken.check()
