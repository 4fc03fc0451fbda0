"""Engine, agent and control plane as processes, and requests through them: what the journeys of a datum are made of."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from httpx_sse import EventSource

from agents.agent.delivery.spool import SUFFIX
from controlplane.client import Client
from tests.processes import answers, free_ports, wait_for

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "agents/models/tailwright-py-5m"
STREAMS = 2


@dataclass(frozen=True)
class Timing:
    """One request as its client saw it, in seconds."""

    ttft: float
    e2e: float


class Datum:
    """Control plane, engine and agent as processes; `made` counts the requests that got their whole answer."""

    def __init__(self, folder: Path, *service_flags: str) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = iter(range(10**9))
        self._lock = threading.Lock()
        ports = free_ports(2)
        self.url, self.engine_url = (f"http://127.0.0.1:{port}" for port in ports)
        data, state = str(folder / "data"), str(folder / "agent")
        token_file = str(folder / "data/enrolment-token")
        up = f"up --no-tuner --no-dashboard --port {ports[0]} --data-dir".split()
        agent = f"--node node-1 --pool journey --engine-url {self.engine_url} --server-url {self.url}".split()
        self._commands = {
            "service": ["controlplane.command.main", *up, data, *service_flags],
            "engine": ["agents.engine", "--port", str(ports[1]), "--model", str(MODEL)],
            "agent": ["agents.agent", *agent, "--state-dir", state, "--enrolment-token-file", token_file],
        }
        self.made = 0
        self.tokens = 0
        self.began = datetime.now(UTC) - timedelta(seconds=5)

    def start(self, name: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILWRIGHT_")}
        environment["OMP_NUM_THREADS"] = "1"
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", *self._commands[name]]
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        if name == "service":
            wait_for("the service is ready", lambda: answers(f"{self.url}/readyz"))
        elif name == "engine":
            wait_for("the engine is healthy", lambda: answers(f"{self.engine_url}/health"))

    def kill(self, name: str) -> None:
        """kill -9."""
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait(20)

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(20)

    def alive(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def client(self) -> Client:
        return Client(self.url, (self.folder / "data/admin-token").read_text().strip())

    def request(self, http: httpx.Client, *, words: int, max_tokens: int) -> Timing:
        """One streamed completion, timed; counted when it ended well."""
        number = next(self._numbers)
        prompt = " ".join(f"v{(number * 7919 + place) % 9973}" for place in range(words))
        body = {"model": MODEL.name, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
        began = time.perf_counter()
        first = None
        with http.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            for one in EventSource(answer).iter_sse():
                if first is None and one.data.startswith("{") and json.loads(one.data)["choices"]:
                    first = time.perf_counter()
        ended = time.perf_counter()
        assert first is not None
        with self._lock:
            self.made += 1
            self.tokens += max_tokens
        return Timing(first - began, ended - began)

    def traffic(self, count: int, *, words: int = 40, max_tokens: int = 24) -> list[Timing]:
        """`count` requests over a few warm connections, each with its own prompt."""

        def stream(share: int) -> list[Timing]:
            with httpx.Client(base_url=self.engine_url, timeout=120, trust_env=False) as http:
                http.get("/health")
                return [self.request(http, words=words, max_tokens=max_tokens) for _ in range(share)]

        with ThreadPoolExecutor(STREAMS) as pool:
            return [timing for part in pool.map(stream, [count // STREAMS] * STREAMS) for timing in part]

    def counted(self, metric: str) -> int:
        now = datetime.now(UTC) + timedelta(seconds=10)
        with self.client() as client:
            return sum(series.count for series in client.quantiles(metric, start=self.began, end=now).series)

    def summed(self, metric: str) -> float:
        now = datetime.now(UTC) + timedelta(seconds=10)
        with self.client() as client:
            return sum(series.value for series in client.scalars(metric, start=self.began, end=now).series)

    def assert_all_is_counted_once(self) -> None:
        """Every request made, and every one of its tokens, is in the API exactly once."""
        wait_for("every request is counted", lambda: self.counted("e2e") >= self.made)
        wait_for("every gap is counted", lambda: self.counted("itl") >= self.tokens - self.made)
        spool = self.folder / "agent/spool"
        wait_for("the agent has nothing more to send", lambda: not any(spool.glob(f"*{SUFFIX}")))
        assert self.counted("e2e") == self.made
        assert self.counted("ttft") == self.made
        assert self.counted("itl") == self.tokens - self.made
        assert self.summed("requests") == self.made
        assert self.summed("output_tokens") == self.tokens
        assert self.summed("events_missed") == 0
        with self.client() as client:
            now = datetime.now(UTC) + timedelta(seconds=10)
            assert len(client.workload("journey", start=self.began, end=now).requests) == self.made
