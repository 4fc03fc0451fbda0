"""The simulated fleet seen from a section: started, let go, and its outcome read."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetOutcome, FleetPlan, go_file, ready_file
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.terminal.child import one_thread_each

_READY_S = 300.0


@dataclass
class FleetRun:
    """One process of the load. `go` starts the clock of its plan."""

    child: Child
    plan: FleetPlan
    outcome_file: Path

    @classmethod
    def prepare(cls, nursery: Nursery, name: str, plan: FleetPlan) -> "FleetRun":
        """Returns when all bodies are made."""
        plan_file, outcome_file = nursery.folder / f"{name}.plan.json", nursery.folder / f"{name}.outcome.json"
        for leftover in (outcome_file, ready_file(outcome_file), go_file(outcome_file)):
            leftover.unlink(missing_ok=True)
        plan.save(plan_file)
        module = "benchmarks.telemetry_measures.fleet.simulated_fleet"
        command = [sys.executable, "-m", module, str(plan_file), str(outcome_file)]
        run = cls(nursery.start(name, command, one_thread_each()), plan, outcome_file)
        run._await(ready_file(outcome_file), _READY_S)
        return run

    def go(self) -> None:
        go_file(self.outcome_file).touch()

    @property
    def is_over(self) -> bool:
        return self.outcome_file.exists() or not self.child.is_alive

    def outcome(self, limit_s: float) -> FleetOutcome:
        """Wait for the end. Raises `WorkerFailed` with the end of its log."""
        self._await(self.outcome_file, limit_s)
        return FleetOutcome.load(self.outcome_file)

    def _await(self, file: Path, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while not file.exists():
            if not self.child.is_alive and not file.exists():
                raise WorkerFailed(f"{self.child.name} ended; its log ends:\n{self.child.log_end()}")
            if time.monotonic() > until:
                raise WorkerFailed(f"{self.child.name}: no {file.name} after {limit_s:g} s")
            time.sleep(0.05)
