"""A large fleet on two replicas of the service over one PostgreSQL: what is sustained, and what each part uses.

First every node reports once, slowly: tokens, names and partitions are made then. Then the whole fleet at a report each
10 s; where that is too much, the most nodes that are sustained at it (halving), and the whole fleet at longer intervals
up to the shortest that is. At the end a replica is killed under load and started again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetPlan
from benchmarks.telemetry_measures.on_postgresql import shared_run
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import SETTINGS, Postgresql
from benchmarks.telemetry_measures.on_postgresql.shared_run import SharedRun
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session

NODES, QUICK_NODES = 10_000, 400
INTERVALS_S = (10.0, 15.0, 20.0, 30.0, 60.0)
FIRST_S = 60.0
"""In which each node reports for the first time."""
_WHOLE_S, _SEARCH_S, _KILL_S = 180.0, 60.0, 60.0
_STEPS = 3
_ROUND_TO = 250
_DEAD_S = 3.0
KILLED = "replica killed"


class Runs:
    """Made one after the other on the same replicas; each is told as soon as it is over."""

    def __init__(self, session: Session, server: Postgresql, replicas: list[Service]) -> None:
        self._session, self._server, self._replicas = session, server, replicas
        self._salts = count(1)  # Streams and ordinals start afresh: a run must not look like the repeat of another.
        self.made: list[SharedRun] = []

    def make(
        self,
        name: str,
        nodes: int,
        interval_s: float,
        seconds: float,
        meanwhile: Callable[[float], None] = lambda _: None,
    ) -> SharedRun:
        plan = FleetPlan(
            urls=tuple(replica.url for replica in self._replicas),
            nodes=nodes,
            seconds=max(seconds, interval_s),
            interval_s=interval_s,
            variants=128 if self._session.settings.quick else 512,
            seed=self._session.settings.seed,
            stream_salt=next(self._salts),
        )
        for replica in self._replicas:
            if not replica.child.is_alive:
                raise WorkerFailed(f"{replica.child.name} has ended; its log ends:\n{replica.child.log_end()}")
        progress(f"postgres: {name}: {nodes} nodes each {interval_s:g} s for {plan.seconds:.0f} s")
        late = shared_run.await_folded(self._server) if self.made else ""
        found = shared_run.run(self._session.nursery, self._server, self._replicas, plan, name, meanwhile)
        found.void = found.void or late
        self.made.append(found)
        progress(f"postgres: {' | '.join(_row(found))}")
        if found.void:
            progress(f"postgres: {found.void}")
        return found


def measure(session: Session) -> None:
    heading("Two replicas on PostgreSQL")
    nodes = QUICK_NODES if session.settings.quick else NODES
    server = Postgresql(session.cores)
    try:
        replicas: list[Service] = []
        try:
            for number in range(2):
                # The first one to start makes the tokens.
                token = replicas[0].token if replicas else None
                name = f"replica-{number}"
                replicas.append(Service(session.nursery, name, session.cores, database_url=server.url, token=token))
            replicas[0].give_tokens(session.settings.seed, nodes)
            runs = Runs(session, server, replicas)
            try:
                _all(runs, replicas, nodes, min(session.settings.minutes * 60, _WHOLE_S))
            finally:
                _tell(session, server, runs.made)
        finally:
            for replica in replicas:
                replica.close()
    finally:
        server.close()


def _all(runs: Runs, replicas: list[Service], nodes: int, seconds: float) -> None:
    runs.make("first reports", nodes, min(FIRST_S, seconds), min(FIRST_S, seconds))
    shortest, *longer = INTERVALS_S
    if not runs.make("whole fleet", nodes, shortest, seconds).kept_up:
        for interval_s in longer:
            if runs.make("whole fleet", nodes, interval_s, max(seconds, 2 * interval_s)).kept_up:
                break
        most = _search(runs, nodes, shortest, min(seconds, _SEARCH_S))
        if most:
            runs.make("most nodes", most, shortest, seconds)
    fewer = max(_ROUND_TO, nodes // 4)
    seconds = min(seconds, _KILL_S)
    runs.make(KILLED, min(nodes, fewer), shortest, seconds, _Killing(replicas[0], seconds / 3))


def _search(runs: Runs, nodes: int, interval_s: float, seconds: float) -> int:
    """The most nodes that were seen to be sustained below a number that was not."""
    sustained, tried = 0, nodes
    for _ in range(_STEPS):
        middle = max(_ROUND_TO, round((sustained + tried) / 2 / _ROUND_TO) * _ROUND_TO)
        if middle in (sustained, tried):
            break
        if runs.make("search", middle, interval_s, seconds).kept_up:
            sustained = middle
        else:
            tried = middle
    return sustained


@dataclass
class _Killing:
    """Kills a replica once so many seconds have passed, and starts it again."""

    replica: Service
    after_s: float
    done: bool = False

    def __call__(self, passed_s: float) -> None:
        if self.done or passed_s < self.after_s:
            return
        self.done = True
        self.replica.child.kill()
        time.sleep(_DEAD_S)
        self.replica.start()


def _verdict(run: SharedRun) -> str:
    told = run.outcome
    if run.balance is not None and not run.balance.exact:
        return "**NOT EXACT**"
    if run.name == KILLED and run.balance is not None and told.acknowledged == told.scheduled:
        return "exact"
    if run.kept_up:
        return "**sustained**"
    return "void" if run.void else "not sustained"


def _row(run: SharedRun) -> list[str]:
    told = run.outcome
    return [
        run.name,
        f"{run.plan.nodes:,}",
        f"{run.plan.interval_s:g}",
        f"{run.plan.seconds:.0f}",
        f"{told.scheduled:,}",
        f"{told.acknowledged:,}",
        str(told.refusals),
        " / ".join(figure(told.due_ms.get(name, float("nan"))) for name in ("p50", "p99")),
        " + ".join(f"{run.each_ms(cpu):.2f}" for cpu in run.replicas) or "-",
        f"{run.each_ms(run.postgres.total()):.2f}",
        f"{run.each_ms(told.cpu_s):.2f}",
        f"{run.cores:.2f} + {run.others / max(0.001, run.took_s):.2f}",
        f"{run.wal_bytes / max(1, told.acknowledged):,.0f}",
        _verdict(run),
    ]


def _tell(session: Session, server: Postgresql, made: list[SharedRun]) -> None:
    settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    note(
        f"PostgreSQL {server.version} ({settings}); two replicas, the database and the load share two cores. A packed "
        "report from each node each so many seconds, half of the nodes to each replica; default alert rules on. "
        "Latency from when a report is due to its acknowledgement. Sustained: every report acknowledged, none refused, "
        f"p99 under {shared_run.LATENCY_GOAL_MS:.0f} ms, and every value of {' and '.join(shared_run.BALANCED)} "
        f"counted once, node by node. Void: not sustained, while others used over {shared_run.OTHERS_CORES:g} "
        "cores or what is said below."
    )
    head = ["run", "nodes", "each, s", "for, s", "reports due", "acknowledged", "refused", "p50 / p99, ms"]
    head += ["CPU a report, ms: replicas", "PostgreSQL", "load", "cores used + by others", "WAL a report, B", ""]
    table(head, [_row(run) for run in made])
    for run in made:
        lines = [] if run.balance is None else [run.balance.told]
        if run.void:
            lines.append(f"kept up, though {run.void}" if run.kept_up else f"**void**: {run.void}")
        if run.outcome.first_refusal:
            lines.append(f"first refusal: {run.outcome.first_refusal}")
        if run.took_s:
            roles = run.postgres.most_common(4)
            lines.append("PostgreSQL: " + ", ".join(f"{role} {seconds:.1f} s" for role, seconds in roles))
            lines.append(f"resident {', '.join(f'{megabytes:.0f}' for megabytes in run.memory_mb)} MB")
        note(f"- {run.name}, {run.plan.nodes:,} nodes each {run.plan.interval_s:g} s: {'; '.join(lines)}.")
        if run.balance is not None and not run.balance.exact:
            session.failures.append(f"postgres: {run.name}: counts differ from what was acknowledged")
    note(f"- The data folder at the end: {server.bytes() / 1e6:.0f} MB.")
