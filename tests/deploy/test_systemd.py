"""The units of deploy/systemd: taken by systemd, sandboxed, and started with settings that there are."""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from agents.agent.settings import AgentSettings
from agents.engine.options import EngineOptions
from controlplane.client import Client
from controlplane.command.main import app
from controlplane.command.up import UpSettings
from controlplane.contract.bodies.nodes import TrialConfig
from tests.deploy import sandboxed
from tests.deploy.sandboxed import unit
from tests.processes import answers, free_ports, wait_for
from tests.read_settings import read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/systemd"
UNITS = sorted(FOLDER.glob("*.service"))
TOML = FOLDER / "tailwright.toml"
SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
BESIDE_VLLM = ROOT / "deploy/vllm/tailwright-agent-attach.service"
EXPOSURE = {BESIDE_VLLM.stem: 20}
"""Tenths of systemd's scale from 0 (safe) to 10; 15 where nothing is said. That one sees GPUs, and vLLM's processes."""
SANDBOX = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictNamespaces": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "Restart": "always",
}
NEEDS_WRITABLE_CODE = {"tailwright-engine"}


def stub(path: Path, folder: Path) -> Path:
    """The unit as on a machine where the command is installed."""
    copy = folder / path.name
    copy.write_text(path.read_text().replace("/opt/tailwright/.venv/bin/tailwright", "/bin/true"))
    return copy


@SYSTEMD
@pytest.mark.parametrize("path", [*UNITS, BESIDE_VLLM], ids=lambda path: path.stem)
def test_systemd_takes_the_unit_and_finds_it_closed(path: Path, tmp_path: Path) -> None:
    copy = stub(path, tmp_path)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60)
    assert not [line for line in done.stderr.splitlines() if path.name in line], done.stderr
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=yes",
            "--no-pager",
            f"--threshold={EXPOSURE.get(path.stem, 15)}",
            copy,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_closed_and_no_user_is_root(path: Path) -> None:
    said = unit(path)
    assert {key: said.get(key, [None])[-1] for key in SANDBOX} == SANDBOX
    assert said["SystemCallFilter"][0] == "@system-service" and said["SystemCallFilter"][1].startswith("~@privileged")
    assert ("MemoryDenyWriteExecute" in said) != (path.stem in NEEDS_WRITABLE_CODE)
    users = {line.split()[1] for line in (FOLDER / "tailwright.sysusers").read_text().splitlines() if line[0] == "u"}
    assert said.get("DynamicUser") == ["yes"] or said["User"][0] in users


def test_engine_and_agent_meet_at_one_socket_as_one_user() -> None:
    engine, agent = (unit(FOLDER / f"tailwright-{name}.service") for name in ("engine", "agent"))
    tables = tomllib.loads(TOML.read_text())
    assert engine["User"] == agent["User"]
    socket = tables["engine"]["control_socket"]
    assert socket == tables["agent"]["engine_control_socket"]
    assert socket.startswith(f"/run/{engine['RuntimeDirectory'][0]}/") and engine["RuntimeDirectoryMode"] == ["0700"]
    assert tables["agent"]["state_dir"] == f"/var/lib/{agent['StateDirectory'][0]}"
    assert tables["agent"]["host_dir"] == f"/run/{agent['RuntimeDirectory'][0]}"
    assert tables["up"]["data_dir"] == f"/var/lib/{unit(FOLDER / 'tailwright.service')['StateDirectory'][0]}"


def test_the_file_has_settings_that_there_are() -> None:
    for command in tomllib.loads(TOML.read_text()):
        answer = CliRunner().invoke(app, ["--config", str(TOML), command, "--help"])
        assert answer.exit_code == 0, answer.output
    up = read(UpSettings, "up", ["--config", str(TOML)])
    assert up.tls_client_ca and not up.tuner and up.telemetry_max_bytes == 20 * 2**30
    engine = read(EngineOptions, "engine", ["--config", str(TOML)], "TAILWRIGHT_ENGINE_")
    agent = read(AgentSettings, "agent", ["--config", str(TOML), *flags("tailwright-agent", "agent")])
    assert agent.client_files.any and str(agent.enrolment_token_file) == "%d/enrolment-token"
    assert agent.engine_url == f"http://127.0.0.1:{engine.port}"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_the_command_has_its_flags(path: Path) -> None:
    program, command, *words = shlex.split(unit(path)["ExecStart"][0])
    assert program == "/opt/tailwright/.venv/bin/tailwright"
    told = CliRunner().invoke(app, [command, "--help"]).output
    assert all(word in told for word in words if word.startswith("--"))


def flags(name: str, command: str) -> list[str]:
    words = shlex.split(unit(FOLDER / f"{name}.service")["ExecStart"][0])
    return words[words.index(command) + 1 :]


class Sandboxed:
    """Programs that run under their units' filters; each has its log in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str) -> None:
        command = [sys.executable, "-m", "tests.deploy.sandboxed", FOLDER / f"{name}.service"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
        with (self.folder / f"{name}.log").open("wb") as log:
            made = subprocess.Popen(
                [*command, sys.executable, "-m", "controlplane.command.main", *words],
                cwd=ROOT,
                env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )
        self._running.append(made)

    def end(self) -> list[int]:
        """Statuses, the newest first."""
        for process in reversed(self._running):
            process.terminate()
        found = [process.wait(60) for process in reversed(self._running)]
        self._running.clear()
        return found


@pytest.mark.slow
@pytest.mark.skipif(not sandboxed.possible(), reason="no systemd, libseccomp or PR_SET_MDWE here")
def test_a_node_is_seen_tuned_and_served_by_what_lives_within_its_units_filters(tmp_path: Path) -> None:
    port, engine_port = free_ports(2)
    url, engine_url, data = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{engine_port}", tmp_path / "data"
    there = Sandboxed(tmp_path)
    there.start("tailwright", "up", "--no-tuner", "--port", str(port), "--data-dir", str(data))
    try:
        wait_for("the service is ready", lambda: answers(f"{url}/readyz"))
        socket = str(tmp_path / "control.sock")
        there.start("tailwright-engine", "engine", "--port", str(engine_port), "--control-socket", socket)
        agent = f"--node n --pool chat --role trial --server-url {url} --engine-url {engine_url}"
        agent += f" --engine-control-socket {socket} --enrolment-token-file {data}/enrolment-token"
        state = ["--state-dir", str(tmp_path / "state"), "--host-dir", str(tmp_path / "hosts")]
        there.start("tailwright-agent", "agent", *agent.split(), *state)
        there.start("tailwright-tuner", "tune", "--server", url, "--token-file", str(data / "tuner-token"))
        wait_for("the engine serves", lambda: answers(f"{engine_url}/health"))
        client = Client(url, (data / "admin-token").read_text().strip())
        wait_for("the node is healthy", lambda: any(node.healthy for node in client.nodes()))
        asked = {"model": "tailwright-py-5m", "prompt": "def f(x):", "max_tokens": 8}
        assert httpx.post(f"{engine_url}/v1/completions", json=asked, timeout=60).status_code == 200
        wait_for("its request is counted", lambda: _counted(client) == 1)
        client.set_trial_config("n", TrialConfig(knobs={"max_num_seqs": 8}))
        wait_for("its knob is moved", lambda: _runs(client).get("max_num_seqs") == 8)
    finally:
        statuses = there.end()
    assert statuses[-1] == 0 and statuses[1] == 0, statuses


def _counted(client: Client) -> int:
    return sum(series.count for series in client.quantiles(metric="e2e", q="0.5", window="5m", node="n").series)


def _runs(client: Client) -> dict[str, Any]:
    return next((node.effective.knobs for node in client.nodes() if node.effective), {})
