"""A day of a fleet loaded with its own times, as fast as the service takes it."""

import time

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.telemetry_measures.accounting import balance
from benchmarks.telemetry_measures.fleet_plan import FleetPlan
from benchmarks.telemetry_measures.fleet_run import FleetRun
from benchmarks.telemetry_measures.service import Service, await_folded
from benchmarks.telemetry_measures.session import Session
from controlplane.contract.metrics import WINDOW_S

NODES, QUICK_NODES = 1000, 50
DAY_S, QUICK_S = 86_400, 1200
SECTIONS = 30
"""Windows of one report: five minutes at a report each 10 s, as a loader would put them together."""
_SPACING = 2
_LIMIT_S = 3600.0


def measure(session: Session) -> None:
    heading("Loading history")
    nodes, span_s = (QUICK_NODES, QUICK_S) if session.settings.quick else (NODES, DAY_S)
    limit_s = session.settings.minutes * 60
    each_s = SECTIONS * _SPACING * WINDOW_S
    reports_each = round(span_s / each_s)
    service = Service(session.nursery, "history", {session.service_core})
    try:
        service.give_tokens(session.settings.seed, nodes)
        plan = FleetPlan(
            urls=(service.url,),
            nodes=nodes,
            history_start=int((time.time() - 600 - span_s) // WINDOW_S),
            reports_each=reports_each,
            sections=SECTIONS,
            spacing=_SPACING,
            connections=16,
            variants=96,
            seed=session.settings.seed,
            core=session.load_core,
            limit_s=limit_s,
        )
        fleet = FleetRun.prepare(session.nursery, "history-load", plan)
        progress(f"history: {nodes} nodes, {span_s / 3600:g} h, at most {limit_s:.0f} s")
        cpu = service.child.cpu_s()
        fleet.go()
        outcome = fleet.outcome(limit_s + _LIMIT_S)
        loading_s = outcome.ended_at - outcome.started_at
        folding_s = await_folded([service], _LIMIT_S)
        cpu_s = service.child.cpu_s() - cpu
        windows = outcome.acknowledged * SECTIONS
        whole = nodes * reports_each * SECTIONS
        rows = [
            ["reports' worth of windows loaded (60 histograms and 40 gauges each)", f"{windows:,} of {whole:,}"],
            ["seconds until acknowledged; then until folded", f"{loading_s:.0f}; {folding_s:.0f}"],
            ["windows a second, histograms a second", f"{windows / loading_s:,.0f}, {60 * windows / loading_s:,.0f}"],
            ["CPU of the service, ms a window", figure(1000 * cpu_s / max(1, windows))],
            ["refused", f"{outcome.refusals} {outcome.first_refusal}"],
            ["database, MB", f"{service.database_bytes() / 1e6:.0f}"],
            ["resident at most, MB", f"{service.memory_bytes()[1] / 1e6:.0f}"],
        ]
        note(
            f"{nodes} nodes, {span_s / 3600:g} h with a window each {_SPACING * WINDOW_S:g} s, {SECTIONS} windows in a "
            "report; the service on one core, the load on the other."
        )
        table(["", ""], rows)
        minutes = loading_s / 60 * whole / max(1, windows)
        how = "measured" if windows == whole else f"extrapolated from the first {loading_s / 60:.1f}"
        note(f"A day of 1,000 nodes: {minutes * _scale(nodes, span_s):.1f} minutes ({how}).")
        told = balance(service.client, plan, outcome, ("ttft",))
        note(f"- ttft of every node: {told.told}.")
        if not told.exact:
            session.failures.append("history: counts differ from what was acknowledged")
    finally:
        service.close()


def _scale(nodes: int, span_s: int) -> float:
    return NODES / nodes * DAY_S / span_s
