"""The path of one datum, end to end in real processes: engine, agent, control plane, API.

The same requests are timed from outside; then the agent and the control plane are killed under traffic, and every
request made must be counted exactly once all the same.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from controlplane.client import Client

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "agents/models/trimtab-py-5m"

TOLERANCE = 0.025
STREAMS = 2


@dataclass(frozen=True)
class Timing:
    """One request as its client saw it, in seconds."""

    ttft: float
    e2e: float


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(what: str, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: did not happen within {limit_s} s"
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


class Datum:
    """Control plane, engine and agent as processes; `made` counts the requests that got their whole answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = iter(range(10**9))
        self._lock = threading.Lock()
        ports = free_port(), free_port()
        self.url, self.engine_url = (f"http://127.0.0.1:{port}" for port in ports)
        data, state = str(folder / "data"), str(folder / "agent")
        token_file = str(folder / "data/enrolment-token")
        up = f"up --no-tuner --no-dashboard --port {ports[0]} --data-dir".split()
        agent = f"--node node-1 --pool journey --engine-url {self.engine_url} --server-url {self.url}".split()
        self._commands = {
            "service": ["controlplane.command.main", *up, data],
            "engine": ["agents.engine", "--port", str(ports[1]), "--model", str(MODEL)],
            "agent": ["agents", *agent, "--state-dir", state, "--enrolment-token-file", token_file],
        }
        self.made = 0
        self.tokens = 0
        self.began = datetime.now(UTC) - timedelta(seconds=5)

    def start(self, name: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TRIMTAB_")}
        environment["OMP_NUM_THREADS"] = "1"
        with (self._folder / f"{name}.log").open("ab") as log:
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
        return Client(self.url, (self._folder / "data/admin-token").read_text().strip())

    def request(self, http: httpx.Client, *, words: int, max_tokens: int) -> Timing:
        """One streamed completion, timed; counted when it ended well."""
        number = next(self._numbers)
        prompt = " ".join(f"v{(number * 7919 + place) % 9973}" for place in range(words))
        body = {"model": MODEL.name, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
        began = time.perf_counter()
        first = None
        with http.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: {") and first is None and json.loads(line[6:])["choices"]:
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
        wait_for("every request is counted", lambda: self.counted("e2e") >= self.made, 40)
        time.sleep(1)
        assert self.counted("e2e") == self.made
        assert self.counted("ttft") == self.made
        assert self.counted("itl") == self.tokens - self.made
        assert self.summed("requests") == self.made
        assert self.summed("output_tokens") == self.tokens
        assert self.summed("events_missed") == 0
        with self.client() as client:
            now = datetime.now(UTC) + timedelta(seconds=10)
            assert len(client.workload("journey", start=self.began, end=now).requests) == self.made


@pytest.fixture(scope="module")
def datum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Datum]:
    made = Datum(tmp_path_factory.mktemp("datum"))
    try:
        made.start("service")
        made.start("engine")
        made.start("agent")
        yield made
    finally:
        made.end()


def neighbours(values: list[float], q: float) -> tuple[float, float]:
    """The two measurements that the quantile lies between."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    return ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]


def test_the_api_says_what_the_clients_saw(datum: Datum) -> None:
    timings = datum.traffic(80, words=120, max_tokens=48)
    datum.assert_all_is_counted_once()
    with datum.client() as client:
        for metric in ("ttft", "e2e"):
            now = datetime.now(UTC) + timedelta(seconds=10)
            (series,) = client.quantiles(metric, (0.5, 0.95, 0.99), start=datum.began, end=now).series
            seen = [getattr(timing, metric) for timing in timings]
            assert series.mean == pytest.approx(sum(seen) / len(seen), rel=TOLERANCE)
            for q in (0.5, 0.95, 0.99):
                low, high = neighbours(seen, q)
                said = series.quantiles[str(q)]
                print(f"{metric} p{q * 100:g}: clients {low * 1e3:.2f} to {high * 1e3:.2f} ms, API {said * 1e3:.2f} ms")
                assert low * (1 - TOLERANCE) <= said <= high * (1 + TOLERANCE)
        wait_for("the node is healthy", lambda: client.node("node-1").healthy)
        node = client.node("node-1")
        assert (node.model, node.pool, node.connected) == (MODEL.name, "journey", True)
        assert node.unaccounted_share is not None and node.unaccounted_share < 0.02


def test_the_engine_serves_on_without_its_agent_and_nothing_is_lost(datum: Datum) -> None:
    datum.traffic(6)
    datum.kill("agent")
    datum.traffic(10)
    assert datum.alive("engine")
    datum.start("agent")
    datum.traffic(4)
    datum.assert_all_is_counted_once()


def test_an_agent_killed_under_traffic_loses_and_doubles_nothing(datum: Datum) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(datum.traffic, 80)
        for pause_s in (1.5, 2.7, 6.1):
            time.sleep(pause_s)
            datum.kill("agent")
            datum.start("agent")
        running.result()
    datum.assert_all_is_counted_once()


def test_a_control_plane_killed_under_traffic_loses_and_doubles_nothing(datum: Datum) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(datum.traffic, 120)
        for pause_s in (2.0, 5.1, 5.4):
            time.sleep(pause_s)
            datum.kill("service")
            time.sleep(1.0)
            datum.start("service")
        running.result()
    datum.assert_all_is_counted_once()
    with datum.client() as client:
        wait_for("the node is back", lambda: client.node("node-1").connected and client.node("node-1").healthy)
