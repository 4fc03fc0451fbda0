"""A real agent that follows an engine, with its folder recorded: killed, cut off with the power, started again."""

import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.power_loss.disk import Cut, Loss
from benchmarks.power_loss.recording import Recording
from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.terminal.child import one_thread_each


class RealAgent:
    """One agent process of node `name`. `given`: further options of `python -m agents.agent`, without dashes."""

    def __init__(
        self,
        nursery: Nursery,
        service: Service,
        name: str,
        *,
        pool: str,
        engine: Mapping[str, str],
        core: int | None = None,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._nursery, self._core = nursery, core
        self._folder = nursery.folder / f"agent-{name}"
        self._folder.mkdir(mode=0o700)
        self._recording = Recording(self._folder, nursery.folder / f"agent-{name}-disk")
        options = {
            "node": name,
            "pool": pool,
            "server-url": service.url,
            "state-dir": str(self._folder),
            "enrolment-token-file": str(service.data / "enrolment-token"),
            "report-interval-s": "1",
            "report-grace-s": "0.2",
            **engine,
            **(given or {}),
        }
        arguments = (part for key, value in options.items() for part in (f"--{key}", value))
        self._command = [sys.executable, "-m", "agents.agent", *arguments]
        self.child: Child
        self.start()

    def start(self) -> None:
        environment = {**one_thread_each(), **self._recording.environment()}
        self.child = self._nursery.start(f"agent-{self.name}", self._command, environment)
        if self._core is not None:
            os.sched_setaffinity(self.child.pid, {self._core})

    def kill(self) -> None:
        """SIGKILL; the machine stays up, so that all it has written stays, too."""
        self.child.kill()
        self._recording.settle()

    def power_cut(self, chosen: random.Random, how: Cut) -> Loss:
        """SIGKILL, and its folder is what a disk may hold after that."""
        self.child.kill()
        return self._recording.cut(chosen, how)

    def stop(self) -> None:
        self._nursery.stop(self.child)


def stand_in(url: str, any_token: Path) -> dict[str, str]:
    """The options for an engine that answers control requests on its one port, to anybody."""
    return {"engine-url": url, "engine-control-url": url, "engine-control-token-file": str(any_token)}
