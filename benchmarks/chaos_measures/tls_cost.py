"""What mutual TLS costs the service: CPU a report of a fleet whose nodes each keep a connection, with it and in clear.

Two services and two fleets run side by side at the same rate, so that whatever else the machine does meets both. CPU is
each service's own (/proc), all of it: folding and alert rules too. Handshakes: those of all nodes at the start are told
apart; in the run each connection is made anew every `renewed_s` seconds.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from benchmarks.chaos_measures.tls_load import TlsOutcome, TlsPlan
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.fleet.fleet_plan import go_file, ready_file
from benchmarks.telemetry_measures.fleet.report_bodies import node_name
from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.proc_files import busy_s
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.serving.authority import Authority
from controlplane.terminal.child import one_thread_each

GOAL = 0.10
SPAN_S = 10.0
_READY_S, _OVER_S = 900.0, 120.0


@dataclass
class Side:
    """One service and its fleet. spans: CPU seconds of the service in each span of `SPAN_S`."""

    name: str
    service: Service
    load: Child
    outcome_file: Path
    connect_cpu_s: float
    spans: list[float]
    cpu_s: float = 0.0
    outcome: TlsOutcome | None = None

    @property
    def each_ms(self) -> float:
        """CPU milliseconds a report."""
        return 1000 * self.cpu_s / max(1, self.told.acknowledged)

    @property
    def told(self) -> TlsOutcome:
        assert self.outcome is not None
        return self.outcome


@dataclass(frozen=True)
class Cost:
    """others: cores that other processes of the machine used meanwhile."""

    nodes: int
    interval_s: float
    seconds: float
    others: float
    mtls: Side
    clear: Side

    @property
    def more(self) -> float:
        """CPU a report with mutual TLS over without, less one."""
        return self.mtls.each_ms / self.clear.each_ms - 1

    @property
    def each_span(self) -> list[float]:
        return [mtls / clear - 1 for mtls, clear in zip(self.mtls.spans, self.clear.spans, strict=True) if clear]

    @property
    def whole(self) -> bool:
        """Nothing was refused, and as much was acknowledged on both sides."""
        return not (self.mtls.told.refused or self.clear.told.refused)

    def save(self, path: Path) -> None:
        sides = {
            one.name: {"connect_cpu_s": one.connect_cpu_s, "cpu_s": one.cpu_s, "spans": one.spans}
            | {"outcome": asdict(one.told)}
            for one in (self.mtls, self.clear)
        }
        given = {"nodes": self.nodes, "interval_s": self.interval_s, "seconds": self.seconds, "others": self.others}
        path.write_text(json.dumps(given | sides, indent=1), encoding="utf-8")


class _Unlisted(Authority):
    """Issues thousands: the list of what was issued, which is written anew each time, is left out."""

    def _note(self, name: str, certificate: x509.Certificate) -> None:
        pass


def measure(nursery: Nursery, nodes: int, seconds: float, interval_s: float, seed: int) -> Cost:
    """Raises `WorkerFailed` when a fleet does not come to its end."""
    folder = nursery.folder / "tls"
    authority, now = _Unlisted(folder), datetime.now(UTC)
    authority.init(now)
    authority.issue_server("service", ["127.0.0.1", "localhost"], now)
    for node in range(nodes):
        authority.issue_node(node_name(node), now)
    progress(f"tls: {nodes} certificates")
    sides: list[Side] = []
    try:
        for tls in (None, str(folder)):  # The one that connects slowly last: connections that wait for long end.
            sides.append(_connected(nursery, TlsPlan("", nodes, seconds, seed, tls, len(sides), interval_s)))
        others = _watch(sides, seconds)
        return Cost(nodes, interval_s, seconds, others, mtls=sides[1], clear=sides[0])
    finally:
        for side in sides:
            nursery.stop(side.load)
            side.service.close()


def _connected(nursery: Nursery, plan: TlsPlan) -> Side:
    name = "mTLS" if plan.tls else "clear"
    folder = None if plan.tls is None else Path(plan.tls)
    service = Service(nursery, f"service-{name}", os.sched_getaffinity(0), tls=folder)
    service.give_tokens(plan.seed, plan.nodes)
    plan_file, outcome_file = nursery.folder / f"{name}.plan", nursery.folder / f"{name}.json"
    plan_file.write_text(json.dumps({**asdict(plan), "url": service.url}), encoding="utf-8")
    before = service.child.cpu_s()
    command = [sys.executable, "-m", "benchmarks.chaos_measures.tls_load", str(plan_file), str(outcome_file)]
    load = nursery.start(f"load-{name}", command, one_thread_each())
    side = Side(name, service, load, outcome_file, 0.0, [])
    _wait(side, ready_file(outcome_file), _READY_S)
    side.connect_cpu_s = service.child.cpu_s() - before
    progress(f"tls: {name}: all connected, {1000 * side.connect_cpu_s / plan.nodes:.2f} ms of CPU each")
    return side


def _watch(sides: Sequence[Side], seconds: float) -> float:
    """Let both report, and note what each service uses. Returns the cores that others used."""
    before = [side.service.child.cpu_s() for side in sides]
    busy, began = busy_s(), time.monotonic()
    for side in sides:
        go_file(side.outcome_file).touch()
    last = before
    for number in range(1, int(seconds / SPAN_S) + 1):
        time.sleep(max(0.0, began + number * SPAN_S - time.monotonic()))
        used = [side.service.child.cpu_s() for side in sides]
        for side, now, then in zip(sides, used, last, strict=True):
            side.spans.append(now - then)
        last = used
    for side, then in zip(sides, before, strict=True):
        _wait(side, side.outcome_file, _OVER_S)
        side.cpu_s = side.service.child.cpu_s() - then
        side.outcome = TlsOutcome(**json.loads(side.outcome_file.read_text(encoding="utf-8")))
    took_s = time.monotonic() - began
    own = sum(side.cpu_s + side.told.cpu_s for side in sides)
    return max(0.0, busy_s() - busy - own) / took_s


def _wait(side: Side, file: Path, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not file.exists():
        if not side.load.is_alive or time.monotonic() > until:
            raise WorkerFailed(f"{side.load.name} has not come to {file.name}; its log ends:\n{side.load.log_end()}")
        time.sleep(0.02)


def tell(cost: Cost) -> bool:
    """Whether the goal was reached."""
    heading("What mutual TLS costs")
    note(
        f"{cost.nodes} nodes, each with its own connection and certificate, a report each {cost.interval_s:g} s, for "
        f"{cost.seconds:.0f} s beside the same in clear; other processes used {cost.others:.2f} cores."
    )
    table(
        [
            *("", "connecting, s", "CPU of connecting and a first report, ms", "reports", "made anew", "not 200"),
            *("CPU a report, ms", "longest answer, s", "load late at most, s"),
        ],
        [_row(cost.mtls, cost.nodes), _row(cost.clear, cost.nodes)],
    )
    for side in (cost.mtls, cost.clear):
        for why, times in side.told.refused.items():
            note(f"- {side.name}: {times} times {why}")
    quartiles = statistics.quantiles(cost.each_span, n=4) if len(cost.each_span) > 1 else [float("nan")] * 3
    reached = cost.more < GOAL
    note(
        f"CPU a report with mutual TLS over without: **{100 * cost.more:+.1f} %** (of {len(cost.each_span)} spans of "
        f"{SPAN_S:.0f} s: median {100 * quartiles[1]:+.1f} %, quartiles {100 * quartiles[0]:+.1f} and "
        f"{100 * quartiles[2]:+.1f} %); goal under {100 * GOAL:.0f} %: **{'reached' if reached else 'NOT reached'}**."
    )
    return reached and cost.whole


def _row(side: Side, nodes: int) -> list[str]:
    told = side.told
    return [
        *(side.name, f"{told.connected_s:.1f}", f"{1000 * side.connect_cpu_s / nodes:.2f}", f"{told.acknowledged:,}"),
        *(str(told.reconnected), str(sum(told.refused.values())), f"{side.each_ms:.3f}", f"{told.slowest_s:.2f}"),
        f"{told.late_s:.2f}",
    ]
