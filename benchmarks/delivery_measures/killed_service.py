"""The real service, `tailwright up`, in a process of its own that is killed and started again at random."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.proc_files import cpu_s_of

_START_S = 120.0


class KilledService:
    """`dead`: from when to when there was none that is ready."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        self._folder, self._log = folder, folder / "service.log"
        self.url = f"http://{HOST}:{free_port()}"
        self._command = [sys.executable, "-m", "controlplane.command.main", "up", "--data-dir", str(folder / "data")]
        self._command += ["--host", HOST, "--port", self.url.rpartition(":")[2], "--no-tuner", "--no-dashboard"]
        if database_url is not None:
            self._command += ["--database-url", database_url]
        self.database_url = database_url or f"sqlite:///{folder}/data/tailwright.db"
        self.dead: list[tuple[float, float]] = []
        self.kills = 0
        self._cpu_s = 0.0
        self._start()

    @property
    def cpu_s(self) -> float:
        """Of all its processes so far."""
        return self._cpu_s + cpu_s_of(self._process.pid)

    def add_destination(self, name: str, url: str) -> None:
        token = (self._folder / "data" / "admin-token").read_text(encoding="utf-8").strip()
        wanted = {"name": name, "url": url}
        answer = httpx.post(
            f"{self.url}/api/v1/destinations", json=wanted, headers={"Authorization": f"Bearer {token}"}
        )
        answer.raise_for_status()

    def kill(self) -> None:
        """kill -9, and another at once."""
        since = time.time()
        self.stop()
        self._start()
        self.dead.append((since, time.time()))
        self.kills += 1

    def stop(self) -> None:
        self._cpu_s += cpu_s_of(self._process.pid)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def dead_between(self, start: float, end: float) -> float:
        """Seconds."""
        return sum(max(0.0, min(end, until) - max(start, since)) for since, until in self.dead)

    def _start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)
        until = time.monotonic() + _START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the service does not start: {self._log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False
