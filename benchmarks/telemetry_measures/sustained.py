"""A fleet on one core for minutes, with open dashboards and alert rules; packed, and once as plain OTLP."""

import time
from dataclasses import dataclass, replace

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.telemetry_measures.accounting import Balance, balance
from benchmarks.telemetry_measures.dashboard_load import DashboardLoad, DashboardOutcome
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetOutcome, FleetPlan, Form
from benchmarks.telemetry_measures.fleet.fleet_run import FleetRun
from benchmarks.telemetry_measures.fleet.report_bodies import occupancy, pool_name
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session, verdict
from controlplane.contract.bodies.alerts import AbsoluteCondition, AlertRuleCreate
from controlplane.contract.bodies.slo import UseCase

NODES_GOAL, NODES_AIM = 4000, 8000
LATENCY_GOAL_MS = 1000.0
_OUTCOME_LIMIT_S = 180.0
_FIRST_S = 20
"""While every node's first report brings its names."""


@dataclass(frozen=True)
class Sustained:
    """One run. cpu_s: of the service; balance: None where it could not be asked."""

    plan: FleetPlan
    outcome: FleetOutcome
    dashboards: DashboardOutcome
    cpu_s: float
    seconds: float
    memory: tuple[int, int]
    database_bytes: int
    written_bytes: int
    evaluation: str
    balance: Balance

    @property
    def kept_up(self) -> bool:
        told = self.outcome
        return (
            not told.refusals
            and told.acknowledged == told.scheduled
            and told.due_ms["p99"] < LATENCY_GOAL_MS
            and self.balance.exact
        )


def measure(session: Session) -> None:
    heading("Sustained on one core")
    values, occupied, width = occupancy(session.settings.seed)
    note(
        "Each node sends a report each 10 s, phases spread evenly: 60 exponential histograms (12 metrics of 5 label "
        f"sets, on average {values:.0f} values in {occupied:.0f} occupied buckets that span {width:.0f}) of one 5-s "
        "window, and 40 gauges; a token of its own, zstd (OTLP: gzip), keep-alive connections. Latency from when a "
        "report is due to its acknowledgement, at which it is on the disk. Dashboards ask 10 queries a second; alert "
        "rules: the default ones (regression among them) and an objective for each of 8 pools. The service has one "
        "core, the load the other."
    )
    runs = [_run(session, nodes, "packed", session.settings.minutes * 60) for nodes in session.settings.nodes]
    otlp_s = min(session.settings.minutes * 60, 120.0)
    runs.append(_run(session, _otlp_nodes(session), "otlp", otlp_s))
    _print(runs)


def _otlp_nodes(session: Session) -> int:
    return min(*session.settings.nodes, NODES_GOAL) // 2


def _run(session: Session, nodes: int, form: Form, seconds: float) -> Sustained:
    plan = FleetPlan(
        urls=(),
        nodes=nodes,
        seconds=seconds,
        form=form,
        encoding="zstd" if form == "packed" else "gzip",
        seed=session.settings.seed,
        core=session.load_core,
        variants=128 if session.settings.quick or form == "otlp" else 512,
    )
    service = Service(session.nursery, f"sustained-{form}-{nodes}", {session.service_core})
    try:
        return _measured(session, service, plan)
    finally:
        service.close()


def _measured(session: Session, service: Service, plan: FleetPlan) -> Sustained:
    service.give_tokens(plan.seed, plan.nodes)
    for pool in range(plan.pools):
        rule = AbsoluteCondition(profile=UseCase.CHAT)
        service.client.create_alert_rule(
            AlertRuleCreate(name=f"objective {pool}", pool=pool_name(pool), condition=rule)
        )
    fleet = FleetRun.prepare(session.nursery, f"fleet-{plan.form}-{plan.nodes}", _at(plan, service))
    progress(f"sustained: {plan.nodes} nodes, {plan.form}, {plan.seconds:.0f} s")
    cpu_before, began = service.child.cpu_s(), time.monotonic()
    with DashboardLoad(service.url, service.token, nodes=plan.nodes, pools=plan.pools, seed=plan.seed) as dashboards:
        fleet.go()
        told = time.monotonic()
        while not fleet.is_over and time.monotonic() - began < plan.seconds + _OUTCOME_LIMIT_S:
            time.sleep(0.5)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                share = (service.child.cpu_s() - cpu_before) / (told - began)
                progress(f"sustained: {told - began:.0f} s, {100 * share:.0f} % of the core")
        cpu_s, took = service.child.cpu_s() - cpu_before, time.monotonic() - began
    outcome = fleet.outcome(_OUTCOME_LIMIT_S)
    evaluation = service.background()["alert_evaluation"]
    memory, size, written = service.memory_bytes(), service.database_bytes(), service.written_bytes()
    progress(f"sustained: {outcome.acknowledged} of {outcome.scheduled} acknowledged, asking for the counts")
    return Sustained(
        fleet.plan,
        outcome,
        dashboards.outcome,
        cpu_s,
        took,
        memory,
        size,
        written,
        f"{evaluation['runs']} runs, {evaluation['failures']} failed, last {evaluation['last_duration_s']:.2f} s",
        balance(service.client, fleet.plan, outcome),
    )


def _at(plan: FleetPlan, service: Service) -> FleetPlan:
    return replace(plan, urls=(service.url,))


def _print(runs: list[Sustained]) -> None:
    head = ["", *(f"{run.plan.nodes} nodes, {run.plan.form}" for run in runs)]

    def row(name: str, tell: object) -> list[str]:
        assert callable(tell)
        return [name, *(str(tell(run)) for run in runs)]

    rows = [
        row("seconds", lambda run: f"{run.plan.seconds:.0f}"),
        row("reports due, acknowledged", lambda run: f"{run.outcome.scheduled:,}, {run.outcome.acknowledged:,}"),
        row("answers that were no 200", lambda run: _refusals(run.outcome)),
        row("latency p50 / p99 / max, ms", lambda run: _latency(run.outcome.due_ms)),
        row("seconds in which something waited over 1 s", lambda run: _stalls(run.outcome)),
        row("CPU of the service, share of its core", lambda run: f"{100 * run.cpu_s / run.seconds:.0f} %"),
        row(
            "CPU per report, all included, ms", lambda run: figure(1000 * run.cpu_s / max(1, run.outcome.acknowledged))
        ),
        row(
            "dashboard queries answered, failed",
            lambda run: f"{run.dashboards.answered}, {len(run.dashboards.failures)}",
        ),
        row("their p50 / p99, ms", lambda run: _queries(run.dashboards)),
        row("alert evaluation", lambda run: run.evaluation),
        row("memory at the end / at most, MB", lambda run: " / ".join(f"{size / 1e6:.0f}" for size in run.memory)),
        row("database, MB", lambda run: f"{run.database_bytes / 1e6:.0f}"),
        row("written to disk, MB", lambda run: f"{run.written_bytes / 1e6:.0f}"),
        row("bytes of a report as sent", lambda run: f"{run.outcome.body_bytes:.0f}"),
        row("CPU of the load, share of its core", lambda run: f"{100 * run.outcome.cpu_s / run.plan.seconds:.0f} %"),
    ]
    table(head, rows)
    for run in runs:
        note(f"- {run.plan.nodes} nodes, {run.plan.form}: {run.balance.told}.")
        for kind, seconds in sorted(run.dashboards.seconds.items()):
            note(
                f"  - {kind}: p50 {figure(1000 * quantile(seconds, 0.5))}, "
                f"p99 {figure(1000 * quantile(seconds, 0.99))} ms"
            )
        if run.dashboards.failures:
            note(f"  - first failed query: {run.dashboards.failures[0][:200]}")
        if run.outcome.first_refusal:
            note(f"  - first refusal: {run.outcome.first_refusal}")
    packed = {run.plan.nodes: run for run in runs if run.plan.form == "packed"}
    for name, nodes in (("goal", NODES_GOAL), ("aim", NODES_AIM)):
        if nodes in packed:
            note(
                f"{nodes} nodes sustained, p99 under 1 s, nothing refused ({name}): "
                f"**{verdict(packed[nodes].kept_up)}**."
            )


def _refusals(outcome: FleetOutcome) -> str:
    by_status = ", ".join(f"{status}: {count}" for status, count in sorted(outcome.refused.items()))
    lost = f"; {outcome.lost_connections} connections lost" if outcome.lost_connections else ""
    return (by_status or "0") + lost


def _latency(found: dict[str, float]) -> str:
    return " / ".join(figure(found[name]) for name in ("p50", "p99", "max")) if found else "-"


def _stalls(outcome: FleetOutcome) -> str:
    """How many, and where they lie: a fleet that all starts at once shows at the beginning."""
    found = [second for second, slowest in enumerate(outcome.slowest_ms_each_s) if slowest > LATENCY_GOAL_MS]
    early = sum(second < _FIRST_S for second in found)
    return f"{len(found)} ({early} in the first {_FIRST_S})"


def _queries(dashboards: DashboardOutcome) -> str:
    seconds = [value for values in dashboards.seconds.values() for value in values]
    late = f" ({dashboards.late} begun late)" if dashboards.late else ""
    return f"{figure(1000 * quantile(seconds, 0.5))} / {figure(1000 * quantile(seconds, 0.99))}{late}"
