"""Control plane and agent as processes beside a real vLLM server that the agent is attached to."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole, NodeView
from tests.processes import free_port, wait_for
from tests.vllm.real_vllm import ROOT, VllmServer

NODE = "vllm-1"
POOL = "vllm"


class Journey:
    """`start("service")`, then `start("agent")`; the agent's node is a trial node, so that it can be set directly, or
    what `role` says. options: of `tailwright up` besides."""

    def __init__(
        self, folder: Path, server: VllmServer, role: NodeRole = NodeRole.TRIAL, options: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        up = ["up", "--no-tuner", "--no-dashboard", "--port", str(port), "--data-dir", str(folder / "data"), *options]
        beside = ["--backend", "vllm", "--engine-url", server.url, "--vllm-dir", str(server.folder)]
        agent = ["--node", NODE, "--pool", POOL, "--role", role.value, "--server-url", self.url, *beside]
        agent += ["--state-dir", str(folder / "agent")]
        agent += ["--enrolment-token-file", str(folder / "data/enrolment-token")]
        self._commands = {"service": ["controlplane.command.main", *up], "agent": ["agents.agent", *agent]}

    def start(self, name: str) -> None:
        """Start it, and wait until the control plane answers, or the node is healthy."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", *self._commands[name]]
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        if name == "service":
            wait_for("the control plane is ready", self._ready, 120)
        else:
            wait_for("the node is healthy", self._healthy, 120)

    def kill(self, name: str) -> None:
        """kill -9."""
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait(20)

    def end(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait(20)

    def client(self) -> Client:
        return Client(self.url, (self.folder / "data/admin-token").read_text().strip())

    def node(self) -> NodeView:
        with self.client() as client:
            return client.node(NODE)

    def wait_applied(self, revision: int) -> NodeView:
        """The node once the control plane sees that it runs this revision."""

        def applied() -> bool:
            node = self.node()
            assert node.config_status is not ConfigStatus.FAILED, node.config_error
            return node.effective is not None and node.effective.revision == revision

        wait_for(f"revision {revision} in force", applied, 60)
        return self.node()

    def log_end(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _healthy(self) -> bool:
        assert self._processes["agent"].poll() is None, self.log_end("agent")
        with self.client() as client:
            return any(node.healthy and node.effective is not None for node in client.nodes())
