"""CPU for one report: the service, and Prometheus scraping the same series, one after the other on the same core."""

import statistics
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import httpx

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.engine_measures.stats import summarize
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.telemetry_measures import prometheus_server
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetPlan, Form
from benchmarks.telemetry_measures.fleet.fleet_run import FleetRun
from benchmarks.telemetry_measures.prometheus_server import Prometheus
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session, verdict
from controlplane.terminal.child import one_thread_each

NODES, QUICK_NODES = 1000, 100
GOAL, AIM = 0.7, 0.3
INTERVAL_S = 10.0
WARM_S, QUICK_WARM_S = 60.0, 25.0
PIECE_S, QUICK_PIECE_S = 30.0, 10.0
"""The measured time is cut into pieces of this length, for a spread."""
_VARIANTS = 8


def measure(session: Session) -> None:
    heading("CPU per report against Prometheus")
    version = prometheus_server.version()
    nodes = QUICK_NODES if session.settings.quick else NODES
    rival, memory = _prometheus(session, nodes)
    rows = [
        [
            f"Prometheus {version}, classic, {len(rival)} x {_piece_s(session):g} s",
            str(nodes),
            *_told(rival),
            "1",
            memory,
        ]
    ]
    ratios: dict[str, float] = {}
    runs: list[tuple[Form, int]] = [("packed", nodes), ("otlp", nodes)]
    if not session.settings.quick:
        runs.insert(0, ("packed", 4 * nodes))
    for form, count in runs:
        ours, memory = _service(session, form, count)
        ratios[f"{form} {count}"] = statistics.median(ours) / statistics.median(rival)
        rows.append([f"Tailwright, {form}", str(count), *_told(ours), f"**{ratios[f'{form} {count}']:.2f}**", memory])
    note(
        f"A report of 60 histograms and 40 gauges from each node each {INTERVAL_S:g} s, no queries and no rules on "
        "either side, one core each; CPU seconds of the whole process between two moments, by the reports acknowledged "
        "(scraped) between them. Prometheus reads 15-bucket classic histograms from ready-made, uncompressed pages; "
        "what Tailwright gets is compressed and on the disk when it is acknowledged (Prometheus flushes its log "
        "without fsync)."
    )
    table(["", "nodes", "CPU ms a report, median (min to max)", "ratio", "resident MB"], rows)
    ratio = ratios[f"packed {nodes}"]
    note(
        f"Packed reports, the same number of nodes: {ratio:.2f} x; goal {GOAL} x: **{verdict(ratio <= GOAL)}**, "
        f"aim {AIM} x: **{verdict(ratio <= AIM)}**."
    )


def _told(milliseconds: list[float]) -> list[str]:
    found = summarize(milliseconds)
    return [f"{figure(found.median)} ({figure(found.minimum)} to {figure(found.maximum)})"]


def _piece_s(session: Session) -> float:
    return QUICK_PIECE_S if session.settings.quick else PIECE_S


def _pieces(session: Session) -> int:
    return max(2, session.settings.rounds)


def _warm_s(session: Session) -> float:
    return QUICK_WARM_S if session.settings.quick else WARM_S


def _prometheus(session: Session, nodes: int) -> tuple[list[float], str]:
    """CPU milliseconds of each scrape, piece by piece; resident megabytes."""
    port = free_port()
    seconds = _warm_s(session) + _pieces(session) * _piece_s(session)
    flags = {
        "port": port,
        "nodes": nodes,
        "variants": _VARIANTS,
        "scrapes": int(seconds / INTERVAL_S) + 3,
        "seed": session.settings.seed,
        "core": session.load_core,
    }
    command = [sys.executable, "-m", "benchmarks.telemetry_measures.exporter"]
    command += [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    exporter = session.nursery.start("exporter", command, one_thread_each())
    count_url = f"http://{HOST}:{port}/count"
    exporter.wait_healthy(count_url, 120.0)
    data = session.nursery.folder / "prometheus-scraping"
    rival = Prometheus(session.nursery, "prometheus-scraping", session.service_core, data, (port, nodes, INTERVAL_S))
    try:
        progress(f"prometheus: scraping {nodes} nodes for {seconds:.0f} s")
        time.sleep(_warm_s(session))
        found = []
        cpu, scrapes = rival.child.cpu_s(), int(httpx.get(count_url).text)
        for _ in range(_pieces(session)):
            time.sleep(_piece_s(session))
            cpu_now, scrapes_now = rival.child.cpu_s(), int(httpx.get(count_url).text)
            found.append(1000 * (cpu_now - cpu) / max(1, scrapes_now - scrapes))
            cpu, scrapes = cpu_now, scrapes_now
        up = rival.query("sum(up)", time.time())
        if not up or int(up[0]["value"][1]) < nodes:
            raise WorkerFailed(f"Prometheus reaches {up[0]['value'][1] if up else 0} of {nodes} nodes")
        status = (Path(f"/proc/{rival.child.pid}/status")).read_text(encoding="utf-8")
        kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return found, f"{kilobytes / 1000:.0f}"
    finally:
        rival.close()
        session.nursery.stop(exporter)


def _service(session: Session, form: Form, nodes: int) -> tuple[list[float], str]:
    """CPU milliseconds of each report, piece by piece; resident megabytes."""
    pieces, piece_s, warm_s = _pieces(session), _piece_s(session), _warm_s(session)
    service = Service(session.nursery, f"scraping-{form}-{nodes}", {session.service_core})
    try:
        service.without_rules()
        service.give_tokens(session.settings.seed, nodes)
        plan = FleetPlan(
            urls=(service.url,),
            nodes=nodes,
            seconds=warm_s + pieces * piece_s + 5.0,
            form=form,
            encoding="zstd" if form == "packed" else "gzip",
            variants=128,
            seed=session.settings.seed,
            core=session.load_core,
        )
        fleet = FleetRun.prepare(session.nursery, f"scraping-fleet-{form}-{nodes}", replace(plan))
        progress(f"prometheus: {nodes} nodes to the service, {form}, {plan.seconds:.0f} s")
        fleet.go()
        time.sleep(warm_s)
        marks = [(time.time(), service.child.cpu_s())]
        for _ in range(pieces):
            time.sleep(piece_s)
            marks.append((time.time(), service.child.cpu_s()))
        outcome = fleet.outcome(120.0)
        if outcome.refusals or outcome.given_up:
            raise WorkerFailed(f"refused: {outcome.refused}: {outcome.first_refusal}")
        # Reports come evenly, so that the seconds' counts may be cut in proportion.
        rate = nodes / INTERVAL_S
        found = [
            1000 * (cpu - cpu_before) / (rate * (at - before)) for (before, cpu_before), (at, cpu) in pairwise(marks)
        ]
        return found, f"{service.memory_bytes()[0] / 1e6:.0f}"
    finally:
        service.close()
