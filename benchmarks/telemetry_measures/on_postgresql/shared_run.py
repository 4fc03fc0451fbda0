"""One run of a fleet on several replicas over one PostgreSQL: what became of it, and what each process used.

Guarantee: it ends, with what went wrong as the reason why it is void; the process of the load is gone by then. A run
that was not kept up with is void too when others than the measured used the machine.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx
import psycopg

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.accounting import Balance, balance
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetOutcome, FleetPlan
from benchmarks.telemetry_measures.fleet.fleet_run import FleetRun
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import Postgresql
from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.proc_files import busy_s
from benchmarks.vllm_measures.processes import Nursery
from controlplane.contract.errors import TailwrightError

LATENCY_GOAL_MS = 1000.0
OTHERS_CORES = 0.2
"""What others may use of the machine before a run is void."""
BALANCED = ("ttft", "e2e")
_BEYOND_S = 240.0
_FOLDED_S = 240.0
_LOOK_S = 1.0


@dataclass
class SharedRun:
    """CPU in seconds. others: of all that was not measured; postgres: by role; void: why it says nothing, or empty."""

    plan: FleetPlan
    name: str
    outcome: FleetOutcome = field(default_factory=FleetOutcome)
    took_s: float = 0.0
    replicas: list[float] = field(default_factory=list)
    postgres: Counter[str] = field(default_factory=Counter)
    others: float = 0.0
    wal_bytes: int = 0
    memory_mb: list[float] = field(default_factory=list)
    balance: Balance | None = None
    void: str = ""

    @property
    def kept_up(self) -> bool:
        told = self.outcome
        whole = bool(told.scheduled) and told.acknowledged == told.scheduled and not told.refusals
        exact = self.balance is not None and self.balance.exact
        return whole and exact and told.due_ms["p99"] < LATENCY_GOAL_MS

    @property
    def cores(self) -> float:
        """In use by all that was measured."""
        return (sum(self.replicas) + self.postgres.total() + self.outcome.cpu_s) / max(0.001, self.took_s)

    def each_ms(self, cpu_s: float) -> float:
        """CPU milliseconds a report."""
        return 1000 * cpu_s / max(1, self.outcome.acknowledged)


def run(
    nursery: Nursery,
    server: Postgresql,
    replicas: Sequence[Service],
    plan: FleetPlan,
    name: str,
    meanwhile: Callable[[float], None] = lambda _: None,
) -> SharedRun:
    """meanwhile: called each second with the seconds since the beginning."""
    found = SharedRun(plan, name)
    try:
        fleet = FleetRun.prepare(nursery, f"fleet-{name.replace(' ', '-')}-{plan.stream_salt}", plan)
        try:
            _measure(found, fleet, server, replicas, meanwhile)
        finally:
            nursery.stop(fleet.child)
        found.balance = balance(replicas[0].client, plan, found.outcome, BALANCED)
    except (WorkerFailed, TailwrightError, httpx.HTTPError, psycopg.Error, OSError) as error:
        found.void = f"{type(error).__name__}: {error}"
    return found


def await_folded(server: Postgresql) -> str:
    """Until nothing waits to be folded, so that a run neither pays for the one before nor shares windows with it; why
    not, after some minutes."""
    until = time.monotonic() + _FOLDED_S
    while waiting := server.waiting_rows():
        if time.monotonic() > until:
            return f"{waiting} commits of the run before still wait to be folded"
        time.sleep(_LOOK_S)
    return ""


def _measure(
    found: SharedRun,
    fleet: FleetRun,
    server: Postgresql,
    replicas: Sequence[Service],
    meanwhile: Callable[[float], None],
) -> None:
    # A replica that is started again meanwhile begins anew at nothing.
    before, used = [replica.child.cpu_s() for replica in replicas], [0.0] * len(replicas)
    processes = [replica.child.pid for replica in replicas]
    postgres, wal, busy = server.cpu_s(), server.wal_bytes(), busy_s()
    fleet.go()
    began = time.monotonic()
    while not fleet.is_over:
        passed = time.monotonic() - began
        if passed > found.plan.seconds + _BEYOND_S:
            raise WorkerFailed(f"the load has not ended {_BEYOND_S:.0f} s after its time")
        meanwhile(passed)
        for place, replica in enumerate(replicas):
            if not replica.child.is_alive:
                raise WorkerFailed(f"{replica.child.name} ended; its log ends:\n{replica.child.log_end()}")
            if replica.child.pid != processes[place]:
                processes[place], before[place] = replica.child.pid, -used[place]
            used[place] = replica.child.cpu_s() - before[place]
        server.cpu_s()
        time.sleep(_LOOK_S)
    found.outcome = fleet.outcome(_BEYOND_S)
    found.took_s = time.monotonic() - began
    found.replicas = [replica.child.cpu_s() - then for replica, then in zip(replicas, before, strict=True)]
    found.postgres = server.cpu_s() - postgres
    found.wal_bytes = server.wal_bytes() - wal
    own = sum(found.replicas) + found.postgres.total() + found.outcome.cpu_s
    found.others = max(0.0, busy_s() - busy - own)
    found.memory_mb = [replica.memory_bytes()[0] / 1e6 for replica in replicas]
    if found.others > OTHERS_CORES * found.took_s:
        # What was kept up with all the same stays so: the verdict looks there first.
        found.void = f"others used {found.others / found.took_s:.2f} cores meanwhile"
