"""A large fleet on two replicas of the service over one PostgreSQL: what is sustained, and what each part uses."""

from dataclasses import dataclass, replace

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.telemetry_measures.accounting import Balance, balance
from benchmarks.telemetry_measures.fleet_plan import FleetOutcome, FleetPlan
from benchmarks.telemetry_measures.fleet_run import FleetRun
from benchmarks.telemetry_measures.postgresql_server import Postgresql
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session, verdict

NODES, QUICK_NODES = 10_000, 400
LATENCY_GOAL_MS = 1000.0
_SEARCH_S = 45.0
_STEPS = 4
_ROUND_TO = 250
_OUTCOME_LIMIT_S = 240.0


@dataclass(frozen=True)
class Shared:
    """One run on two replicas. CPU seconds: of each replica, of PostgreSQL, of the load."""

    plan: FleetPlan
    outcome: FleetOutcome
    replicas_cpu_s: list[float]
    postgres_cpu_s: float
    memory_mb: list[float]
    balance: Balance | None

    @property
    def kept_up(self) -> bool:
        told = self.outcome
        whole = told.acknowledged == told.scheduled and not told.refusals
        return whole and told.due_ms["p99"] < LATENCY_GOAL_MS and (self.balance is None or self.balance.exact)


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
            _measured(session, server, replicas, nodes)
        finally:
            for replica in replicas:
                replica.close()
    finally:
        server.close()


def _measured(session: Session, server: Postgresql, replicas: list[Service], nodes: int) -> None:
    seconds = min(session.settings.minutes * 60, 180.0)
    runs = [_run(session, server, replicas, nodes, seconds, 0, whole=True)]
    if not runs[0].kept_up:
        sustained, tried = 0, nodes
        for step in range(1, _STEPS + 1):
            middle = max(_ROUND_TO, round((sustained + tried) / 2 / _ROUND_TO) * _ROUND_TO)
            if middle in (sustained, tried):
                break
            run = _run(session, server, replicas, middle, _SEARCH_S, step, whole=False)
            sustained, tried = (middle, tried) if run.kept_up else (sustained, middle)
        if sustained:
            runs.append(_run(session, server, replicas, sustained, seconds, _STEPS + 1, whole=True))
    rows = [
        [
            f"{run.plan.nodes:,}",
            f"{run.plan.seconds:.0f}",
            f"{run.outcome.scheduled:,}",
            f"{run.outcome.acknowledged:,}",
            f"{run.outcome.acknowledged / max(0.001, run.outcome.ended_at - run.outcome.started_at):.0f}",
            str(run.outcome.refusals),
            " / ".join(figure(run.outcome.due_ms.get(name, float("nan"))) for name in ("p50", "p99")),
            ", ".join(f"{100 * cpu / run.plan.seconds:.0f}" for cpu in run.replicas_cpu_s),
            f"{100 * run.postgres_cpu_s / run.plan.seconds:.0f}",
            f"{100 * run.outcome.cpu_s / run.plan.seconds:.0f}",
            verdict(run.kept_up).replace("reached", "sustained"),
        ]
        for run in runs
    ]
    note(
        f"PostgreSQL {server.version} with fsync and synchronous_commit as they come; two replicas, the database and "
        "the load share two cores. A packed report from each node each 10 s, half of the nodes to each replica; "
        "default alert rules on. Latency from when a report is due."
    )
    head = ["nodes", "s", "reports due", "acknowledged", "a second", "refused", "p50 / p99, ms"]
    table([*head, "CPU % of each replica", "PostgreSQL", "load", ""], rows)
    for run in runs:
        if run.balance is not None:
            note(
                f"- {run.plan.nodes:,} nodes: {run.balance.told}; resident "
                f"{', '.join(f'{megabytes:.0f}' for megabytes in run.memory_mb)} MB."
            )
            if not run.balance.exact:
                session.failures.append("postgres: counts differ from what was acknowledged")
    note(f"- The data folder at the end: {server.bytes() / 1e6:.0f} MB.")


def _run(
    session: Session,
    server: Postgresql,
    replicas: list[Service],
    nodes: int,
    seconds: float,
    number: int,
    *,
    whole: bool,
) -> Shared:
    plan = FleetPlan(
        urls=tuple(replica.url for replica in replicas),
        nodes=nodes,
        seconds=seconds,
        variants=128 if session.settings.quick else 512,
        seed=session.settings.seed,
    )
    # Streams and ordinals start afresh in each run: a run must not look like the repeat of another.
    plan = replace(plan, stream_salt=number)
    fleet = FleetRun.prepare(session.nursery, f"postgres-fleet-{number}", plan)
    progress(f"postgres: {nodes} nodes for {seconds:.0f} s")
    before, before_postgres = [replica.child.cpu_s() for replica in replicas], server.cpu_s()
    fleet.go()
    outcome = fleet.outcome(seconds + _OUTCOME_LIMIT_S)
    cpu = [replica.child.cpu_s() - then for replica, then in zip(replicas, before, strict=True)]
    postgres = sum(now - before_postgres.get(pid, 0.0) for pid, now in server.cpu_s().items())
    return Shared(
        plan,
        outcome,
        cpu,
        postgres,
        [replica.memory_bytes()[0] / 1e6 for replica in replicas],
        balance(replicas[0].client, plan, outcome, ("ttft", "e2e")) if whole and not number else None,
    )
