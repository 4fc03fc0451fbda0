"""The service as a user starts it, bound to its core, with a fleet's tokens in its database; and what it uses."""

import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.telemetry_measures.fleet.fleet_plan import token_of
from benchmarks.telemetry_measures.fleet.report_bodies import node_name
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.auth import store as tokens
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.serving.tls import client_context
from controlplane.terminal.child import one_thread_each

START_LIMIT_S = 300.0
"""A busy machine is slow, not wrong."""
ANSWER_LIMIT_S = 120.0


class Service:
    """`tailwright up` on a data folder of its own, without tuner and dashboard. A new `start` keeps folder and port.

    token: the administrator's, for a replica on a database where another has made one already. tls: a folder with
    ca.pem and service.pem and .key; nodes must show their certificates then.
    """

    def __init__(
        self,
        nursery: Nursery,
        name: str,
        cores: Collection[int],
        *,
        database_url: str | None = None,
        token: str | None = None,
        tls: Path | None = None,
    ) -> None:
        self._nursery, self._name, self._cores = nursery, name, cores
        self._database_url, self._tls = database_url, tls
        self._trust = None if tls is None else client_context(tls / "ca.pem")
        self.data = nursery.folder / name
        self.port = free_port()
        self.url = f"{'http' if tls is None else 'https'}://{HOST}:{self.port}"
        self.child: Child
        self.start()
        self.token = token or (self.data / "admin-token").read_text(encoding="utf-8").strip()
        self.client = Client(self.url, self.token, timeout_s=ANSWER_LIMIT_S, tls=self._trust)

    @property
    def database_url(self) -> str:
        return self._database_url or f"sqlite:///{self.data / 'tailwright.db'}"

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: more variables, for this start alone. Raises `WorkerFailed` with the end of its log."""
        command = [sys.executable, "-m", "controlplane.command.main", "up", "--data-dir", str(self.data)]
        command += ["--host", HOST, "--port", str(self.port), "--no-tuner", "--no-dashboard", "--log-level", "warning"]
        command += ["--memory-dumps"]  # Its bytes read and written are looked at from outside.
        if self._database_url is not None:
            command += ["--database-url", self._database_url]
        if self._tls is not None:
            command += ["--tls-cert", str(self._tls / "service.pem"), "--tls-key", str(self._tls / "service.key")]
            command += ["--tls-client-ca", str(self._tls / "ca.pem")]
        self.child = self._nursery.start(self._name, command, {**one_thread_each(), **(environment or {})})
        # Before its first other thread is made, which then inherits it.
        os.sched_setaffinity(self.child.pid, self._cores)
        self.child.wait_healthy(f"{self.url}/readyz", START_LIMIT_S, self._trust)

    def stop(self) -> None:
        self._nursery.stop(self.child)

    def close(self) -> None:
        self.client.close()
        self.stop()

    def give_tokens(self, seed: int, nodes: int) -> None:
        """Each simulated node a token of its own, bound to it, in one transaction rather than by so many enrolments."""
        database = Database(self.database_url)
        now = utc_now()
        with database.session() as session:
            for node in range(nodes):
                token = token_of(seed, node)
                tokens.issue(
                    session, name=node_name(node), scope=Scope.AGENT, now=now, node=node_name(node), token=token
                )
        database.close()

    def without_rules(self) -> None:
        """Take the default alert rules away: for the comparison with a rival that has none."""
        for rule in self.client.alert_rules():
            self.client.delete_alert_rule(rule.id)

    def background(self) -> dict[str, dict[str, Any]]:
        """What /readyz tells of the periodic work: by name, runs, failures, last_duration_s."""
        found: dict[str, dict[str, Any]] = httpx.get(f"{self.url}/readyz", timeout=ANSWER_LIMIT_S).json()["background"]
        return found

    def meters(self) -> dict[str, float]:
        """The samples of /metrics by name with labels, as they stand there."""
        text = httpx.get(f"{self.url}/metrics", timeout=ANSWER_LIMIT_S).text
        samples = re.findall(r"^([^#\s]\S*(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in samples}

    def memory_bytes(self) -> tuple[int, int]:
        """Resident now and at most, of the one process."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="utf-8")
        found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE))
        return int(found["VmRSS"]) * 1024, int(found["VmHWM"]) * 1024

    def database_bytes(self) -> int:
        """Of the database file and its side files."""
        return sum(path.stat().st_size for path in self.data.glob("tailwright.db*"))

    def written_bytes(self) -> int:
        """Sent to the storage layer by the process (proc(5), io)."""
        lines = Path(f"/proc/{self.child.pid}/io").read_text(encoding="utf-8").splitlines()
        return int(dict(line.split(": ") for line in lines)["write_bytes"])


def await_folded(services: Sequence[Service], limit_s: float = 300.0) -> float:
    """Until no sealed window waits to be folded; the seconds it took. Recent windows stay, so a few rows may too."""
    from sqlalchemy import text

    database = Database(services[0].database_url)
    began = time.monotonic()
    try:
        while time.monotonic() - began < limit_s:
            with database.engine.connect().execution_options(begin="BEGIN") as connection:
                waiting = connection.execute(text("SELECT count(*) FROM telemetry_pending")).scalar()
            if not waiting:
                return time.monotonic() - began
            time.sleep(0.5)
    finally:
        database.close()
    raise WorkerFailed(f"{waiting} rows still wait to be folded after {limit_s:g} s")
