"""The demo's fleet: control plane, two serving nodes, a trial node, an agent beside each, and traffic."""

import secrets
import shutil
from pathlib import Path

import httpx

from agents.demo.engines import TAILWRIGHT, EmbeddedEngines, Engines
from agents.demo.plan import POOL, TRIAL_POOL, Plan
from agents.demo.processes import Child, Processes
from agents.demo.vllm_engines import VllmEngines
from controlplane.client import Client
from controlplane.contract.errors import Conflict

WARM_UP = "def double(x):\n    return 2 * x\n\n\n" * 8
"""Repeats itself, so that an n-gram drafter has something to do."""
MARKER = ".tailwright-demo"


class Fleet:
    """Starts the processes through the same command line a user has."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.processes = Processes(plan.data_dir / "logs")
        self.engines: Engines = EmbeddedEngines(plan) if plan.vllm is None else VllmEngines(plan, plan.vllm)
        self.url = f"http://127.0.0.1:{plan.port}"
        self.webhook_secret = secrets.token_hex(16)
        self.traffic: Child | None = None

    def clear(self) -> None:
        """Each demo starts from an empty folder. Raises `Conflict` rather than empty one that it did not make."""
        folder, marker = self.plan.data_dir, self.plan.data_dir / MARKER
        if folder.exists() and any(folder.iterdir()):
            if not marker.exists():
                raise Conflict(f"--data-dir: {folder} is not empty and not a demo's; name another", field="data_dir")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        marker.write_text("Made by tailwright demo; emptied at its next start.\n")

    def start_service(self) -> Child:
        data, port = str(self.plan.data_dir / "service"), str(self.plan.port)
        return self.processes.start("service", [*TAILWRIGHT, "up", "--data-dir", data, "--port", port])

    def token(self, name: str) -> str:
        return self.token_file(name).read_text().strip()

    def token_file(self, name: str) -> Path:
        return self.plan.data_dir / "service" / name

    def client(self, token_name: str = "admin-token") -> Client:
        return Client(self.url, self.token(token_name), timeout_s=15)

    def sign_in_link(self) -> str:
        """Opens the dashboard signed in, once, within a minute."""
        with self.client("dashboard-token") as client:
            return client.create_sign_in_code().link(self.url)

    def start_node(self, node: str, port: int, pool: str, role: str) -> None:
        """An engine and the agent beside it: two processes, either of which can die without the other."""
        self.engines.start(self.processes, node, port)
        self.processes.start(
            f"{node}-agent",
            [
                *(*TAILWRIGHT, "agent", "--node", node, "--pool", pool, "--role", role),
                *("--engine-url", f"http://127.0.0.1:{port}", "--server-url", self.url),
                *("--state-dir", str(self.plan.data_dir / node)),
                *("--enrolment-token-file", str(self.plan.data_dir / "service/enrolment-token")),
                *self.engines.agent_flags(node),
            ],
        )

    def start_nodes(self) -> None:
        for number, port in enumerate(self.plan.engine_ports, 1):
            self.start_node(f"node-{number}", port, POOL, "serving")
        self.start_node("trial-1", self.plan.trial_port, TRIAL_POOL, "trial")

    def start_traffic(self) -> None:
        """One request to each serving node first: what an engine compiles at its first use is not the pool's usual."""
        plan = self.plan
        for port in plan.engine_ports:
            body = {"model": plan.model_dir.name, "prompt": WARM_UP, "max_tokens": 16, "temperature": 0.0}
            answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60.0, trust_env=False)
            answer.raise_for_status()
        targets = [word for port in plan.engine_ports for word in ("--target", f"http://127.0.0.1:{port}")]
        limits = ["--max-input", str(plan.max_input_tokens), "--max-output", str(plan.max_output_tokens)]
        load = ["--rate", str(plan.rate), "--seed", str(plan.seed), "--max-in-flight", str(plan.max_in_flight)]
        shape = ["--shape", plan.traffic, "--arrival-cv", str(plan.arrival_cv)]
        self.traffic = self.processes.start("traffic", [*TAILWRIGHT, "traffic", *targets, *load, *shape, *limits])

    def stop(self) -> None:
        self.processes.stop()
