"""Everything that is killed, as real processes on loopback, under load: started, and started again.

The service on SQLite (its writes recorded, for power cuts) or on a real PostgreSQL; two agents with stand-in engines
that take rollouts; one with a stand-in whose traffic is studied; the torch engine with its agent as the trial node; a
tuner worker; a vLLM proxy between clients and a server of this process.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.chaos_measures.kill_alarms import Alarms
from benchmarks.chaos_measures.kill_changes import Changes, ConfigurableEngine
from benchmarks.chaos_measures.kill_proxied import Proxied, proxy_command
from benchmarks.chaos_measures.kill_studies import Studies
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.power_loss.disk import Cut, Loss
from benchmarks.power_loss.recording import Recording
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import Postgresql
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.under_kills.kill_reports import SPACING, KillReports
from benchmarks.telemetry_measures.under_kills.kill_senders import KillSenders
from benchmarks.telemetry_measures.under_kills.real_agent import RealAgent, stand_in
from benchmarks.vllm_measures.processes import Child, Nursery, answers
from controlplane.contract.metrics import WINDOW_S
from controlplane.terminal.child import one_thread_each

Kind = Literal["sqlite", "postgresql"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgresql")
POOL, STUDIED = "real", "lab"
MODEL = "tailwright-py-5m"
_AGE_S = 5 * 3600
_REPORTS_PER_S, _REQUESTS_PER_S = 100.0, 20.0
_READY_LIMIT_S = 300.0


@dataclass
class Restarted:
    """One process that is started the same way again."""

    start: Callable[[], Child]
    health: str | None
    child: Child

    def again(self) -> None:
        self.child = self.start()
        self.wait()

    def wait(self) -> None:
        if self.health is not None:
            self.child.wait_healthy(self.health, _READY_LIMIT_S)


class World:
    """`close` ends it all; `settle` lets everything that is under way come to its end first."""

    def __init__(self, nursery: Nursery, kind: Kind, seed: int, postgresql: Postgresql | None) -> None:
        self.kind = kind
        self._nursery = nursery
        cores = os.sched_getaffinity(0)
        self.postgresql = postgresql
        url = None if self.postgresql is None else self.postgresql.url
        # A first start and a clean end, so that everything recorded begins with a whole database on the disk.
        self.service = Service(nursery, f"service-{kind}", cores, database_url=url)
        self.service.without_rules()
        self.service.stop()
        self._recording = Recording(self.service.data, nursery.folder / f"disk-{kind}")
        self.start_service()
        first = int((time.time() - _AGE_S) // (SPACING * WINDOW_S)) * SPACING
        self.reports = KillReports(seed, first)
        self.senders = KillSenders(self.service.url, self.service.token, self.reports, _REPORTS_PER_S)
        self.engines = {
            name: ConfigurableEngine(_REQUESTS_PER_S, MODEL, seed) for name in ("real-0", "real-1", "lab-0")
        }
        token = self.service.data / "enrolment-token"
        self.agents = [
            RealAgent(
                *(nursery, self.service, name),
                pool=STUDIED if name == "lab-0" else POOL,
                engine=stand_in(engine.url, token),
            )
            for name, engine in self.engines.items()
        ]
        self.engine = self._engine()
        self.agents.append(self._trial_agent())
        self.tuner = self._tuner()
        self.proxied = Proxied(free_port())
        self.proxy = self._proxy()
        self.proxied.start()
        self._await_nodes()
        self.alarms = Alarms(self.service)
        self.changes = Changes(self.service.client, POOL, seed)
        self.studies = Studies(self.service.client, STUDIED)

    def close(self) -> None:
        self.senders.close()
        self.proxied.close()
        for agent in self.agents:
            agent.stop()
        for one in (self.tuner, self.engine, self.proxy):
            self._nursery.stop(one.child)
        for engine in self.engines.values():
            engine.close()
        self.service.close()

    def settle(self) -> None:
        """The rollout, the study and the alarm under way come to their ends; nothing new begins."""
        under_way = (self.changes.close, self.studies.close, self.alarms.close)
        with ThreadPoolExecutor(len(under_way)) as pool:  # At once: else a next study begins while a rollout ends.
            for ended in [pool.submit(close) for close in under_way]:
                ended.result()

    def start_service(self) -> None:
        self.service.start(self._recording.environment() if self.kind == "sqlite" else None)

    def power_cut(self, chosen: random.Random, how: Cut) -> Loss:
        """Of the service on SQLite; it is dead afterwards."""
        self.service.child.kill()
        return self._recording.cut(chosen, how)

    def kill_service(self) -> None:
        self.service.child.kill()
        if self.kind == "sqlite":
            self._recording.settle()

    def await_ready(self) -> None:
        """Until the service accepts reports. Raises `WorkerFailed`."""
        until = time.monotonic() + _READY_LIMIT_S
        while not answers(f"{self.service.url}/readyz"):
            if time.monotonic() > until or not self.service.child.is_alive:
                raise WorkerFailed(f"the service is not ready; its log ends:\n{self.service.child.log_end()}")
            time.sleep(0.1)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _started(self, name: str, module: list[str], health: str | None) -> Restarted:
        def start() -> Child:
            return self._nursery.start(f"{name}-{self.kind}", [sys.executable, "-m", *module], one_thread_each())

        made = Restarted(start, health, start())
        made.wait()
        return made

    def _engine(self) -> Restarted:
        self._engine_port, self._engine_socket = free_port(), self._nursery.folder / f"engine-{self.kind}.sock"
        command = ["controlplane.command.main", "engine", "--port", str(self._engine_port)]
        command += ["--control-socket", str(self._engine_socket), "--quantizations", "none"]
        command += ["--kv-cache-memory-bytes", "64M"]
        return self._started("engine", command, f"http://{HOST}:{self._engine_port}/health")

    def _trial_agent(self) -> RealAgent:
        engine = {
            "engine-url": f"http://{HOST}:{self._engine_port}",
            "engine-control-socket": str(self._engine_socket),
        }
        return RealAgent(
            self._nursery, self.service, "trial-0", pool=f"{STUDIED}-trial", engine=engine, given={"role": "trial"}
        )

    def _tuner(self) -> Restarted:
        token = self.service.data / "tuner-token"
        command = ["controlplane.command.main", "tune", "--server", self.service.url, "--token-file", str(token)]
        return self._started("tuner", command, None)

    def _proxy(self) -> Restarted:
        port, socket = self.proxied.port, self._nursery.folder / f"proxy-{self.kind}.sock"
        command = ["agents.backends.vllm.proxy", *proxy_command(port, Path(socket), self.proxied.upstream_port)]
        return self._started("proxy", command, f"http://{HOST}:{port}/health")

    def _await_nodes(self) -> None:
        until = time.monotonic() + _READY_LIMIT_S
        wanted = {agent.name for agent in self.agents}
        while wanted - {node.node for node in self.service.client.nodes() if node.connected and node.healthy}:
            if time.monotonic() > until:
                raise WorkerFailed(f"not all of {sorted(wanted)} are connected; {self.agents[0].child.log_end()}")
            time.sleep(0.2)
