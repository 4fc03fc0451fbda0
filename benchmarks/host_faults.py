"""Does the diagnosis tell a disturbed host from a bad configuration? Real engines, agents, service and traffic.

    python benchmarks/host_faults.py --out DIR [--seed 1] [--kinds ...] [--each 5] [--configs 20]
    python benchmarks/host_faults.py --judge DIR

Two embedded engines of the bundled model serve a pool under `tailwright traffic`. In an order drawn from the seed,
host faults and configuration faults are injected, each after a quiet time with the good configuration; a configuration
goes out by an emergency rollout, as a person's would. Afterwards the service is stopped, and `alerts.diagnosis` is
asked about each fault from what is stored, as the evaluator asks it: before is the quiet time, the onset is the window
in which the fault began. The metric is the one of ttft, itl and e2e whose mean grew most. `--judge` asks again.

Faults of the host: `busy` (processes that compute, some in a container with more CPU shares), `quota` (the engines'
containers throttled, on one node or both), `kernel` (packets through the loopback, or processes made and ended),
`memory` (node-1's container limited to little more than what its processes need, while some read a large file).
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.demo.demo_fleet import Fleet
from agents.demo.engines import TAILWRIGHT
from agents.demo.plan import POOL, Plan
from benchmarks.host_measures import injections
from controlplane.alerts.diagnosis import context
from controlplane.alerts.diagnosis.diagnosis import Shift, diagnose
from controlplane.alerts.diagnosis.shift_readings import read_shift
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.contract.metrics import WINDOW_S
from controlplane.db import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore

RECOVER_S, RECOVER_FROM_CONFIG_S, QUIET_S, FAULT_S = 3.0, 8.0, 15.0, 15.0
METRICS = ("ttft", "itl", "e2e")
NODES = ("node-1", "node-2")
HOST_KINDS = ("busy", "quota", "kernel", "memory")
CONFIGS: tuple[dict[str, Any], ...] = (
    {"max_num_batched_tokens": 4},
    {"max_num_batched_tokens": 8},
    {"max_num_batched_tokens": 16},
    {"max_num_seqs": 1},
    {"prefill_chunk_size": 4},
    {"max_num_batched_tokens": 8, "max_num_seqs": 2},
    {"max_num_seqs": 1, "num_speculative_tokens": 4},
    {"prefill_chunk_size": 8, "max_num_batched_tokens": 16},
)


@dataclass(frozen=True)
class Fault:
    """One fault as it was injected. Seconds since the epoch; `quiet` is when the quiet time before it began."""

    kind: str
    detail: str
    quiet: float
    began: float
    ended: float


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Run:
    """The fleet, and what is done to it."""

    def __init__(self, folder: Path, seed: int, rate: float) -> None:
        service, *engines = free_ports(3)
        self.folder = folder
        self.plan = Plan(
            data_dir=folder / "fleet", port=service, engine_ports=(engines[0], engines[1]), rate=rate, seed=seed
        )
        self.fleet = Fleet(self.plan)
        self.groups = injections.Groups(f"tailwright-faults-{service}")
        self.container = injections.SmallContainer(f"tailwright-faults-{service}", folder)
        self.chance = random.Random(seed)
        self.containers: dict[str, Path] = {}
        self.faults: list[Fault] = []

    def start(self) -> None:
        self.fleet.clear()
        self.fleet.start_service()
        until(lambda: (self.plan.data_dir / "service/admin-token").exists(), 60, "the service's token")
        for node, port in zip(NODES, self.plan.engine_ports, strict=True):
            with self.container.entered() if node == NODES[0] else contextlib.nullcontext():
                self.fleet.engines.start(self.fleet.processes, node, port)
            self.start_agent(node, port)
        with self.fleet.client() as client:
            until(lambda: len([n for n in client.nodes() if n.healthy]) == len(NODES), 120, "two healthy nodes")
            self.good = client.create_config(RevisionCreate(knobs=self.plan.good, note="good")).number
        for child in self.fleet.processes.children:
            if child.name.endswith("-engine"):
                node = child.name.removesuffix("-engine")
                self.containers[node] = self.groups.contain(node, [child.process.pid])
        self.fleet.start_traffic()
        time.sleep(20.0)

    def stop(self) -> None:
        self.fleet.stop()
        self.groups.close()
        self.container.close()
        shutil.rmtree(self.container.libraries)

    def start_agent(self, node: str, port: int) -> None:
        """Outside the engine's container: what is limited there is the engine."""
        self.fleet.processes.start(
            f"{node}-agent",
            [
                *(*TAILWRIGHT, "agent", "--node", node, "--pool", POOL),
                *("--engine-url", f"http://127.0.0.1:{port}", "--server-url", self.fleet.url),
                *("--state-dir", str(self.plan.data_dir / node), "--host-dir", str(self.folder / "neighbours")),
                *("--enrolment-token-file", str(self.plan.data_dir / "service/enrolment-token")),
            ],
        )

    def roll_out(self, revision: int) -> None:
        """To the whole pool at once; returns when every node runs it."""
        with self.fleet.client() as client:
            wanted = RolloutCreate(pool=POOL, revision=revision, emergency=True, reason="fault injection")
            number = client.create_rollout(wanted).id
            until(lambda: client.rollout(number).phase is RolloutPhase.PROMOTED, 60, f"rollout {number}")
            until(
                lambda: all(n.effective and n.effective.revision == revision for n in client.nodes()),
                60,
                f"revision {revision} everywhere",
            )

    def host_fault(self, kind: str) -> tuple[str, AbstractContextManager[object]]:
        chance = self.chance
        if kind == "busy":
            count, shares = chance.choice((6, 8, 12)), chance.choice((0, 16384, 65536))
            if not shares:
                return f"{count} processes", injections.busy_processes(count)
            return f"{count} processes, {shares} shares", injections.heavy_neighbour(self.groups, shares, count)
        if kind == "memory":
            spare, readers = chance.choice((1, 2, 4)), 4
            return f"{spare} MiB spare, {readers} readers", self.container.squeeze(spare << 20, readers)
        if kind == "quota":
            cpus = chance.choice((0.05, 0.08, 0.12))
            nodes = chance.choice((NODES, NODES[:1], NODES[1:]))
            return f"{cpus} CPUs on {'+'.join(nodes)}", injections.quota([self.containers[n] for n in nodes], cpus)
        name = chance.choice(("packets", "forks"))
        program = injections.PACKETS if name == "packets" else injections.FORKS
        count = chance.choice((6, 8))
        return f"{count} processes of {name}", injections.kernel_work(program, count)

    def inject(self, kind: str, number: int) -> None:
        after_config = bool(self.faults) and self.faults[-1].kind == "config"
        time.sleep(RECOVER_FROM_CONFIG_S if after_config else RECOVER_S)
        quiet = next_window()
        sleep_until(quiet + QUIET_S)
        if kind == "config":
            knobs = CONFIGS[number % len(CONFIGS)]
            with self.fleet.client() as client:
                revision = client.create_config(RevisionCreate(knobs={**self.plan.good, **knobs}, note="fault")).number
            began = time.time()
            self.roll_out(revision)
            sleep_until(time.time() + FAULT_S)
            ended = time.time()
            self.roll_out(self.good)
            self.note(Fault(kind, json.dumps(knobs), quiet, began, ended))
            return
        detail, injection = self.host_fault(kind)
        began = time.time()
        with injection:
            sleep_until(began + FAULT_S)
        self.note(Fault(kind, detail, quiet, began, time.time()))

    def note(self, fault: Fault) -> None:
        self.faults.append(fault)
        (self.folder / "faults.json").write_text(json.dumps([asdict(one) for one in self.faults], indent=1))
        print(f"{len(self.faults)}: {fault.kind} {fault.detail}", flush=True)


def next_window() -> float:
    """The start of the next window."""
    start = (time.time() // WINDOW_S + 1) * WINDOW_S
    sleep_until(start)
    return start


def sleep_until(at: float) -> None:
    time.sleep(max(at - time.time(), 0.0))


def until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(Exception):
            if condition():
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"it did not happen within {limit_s:g} s: {what}")
        time.sleep(0.3)


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def judge(folder: Path) -> list[dict[str, Any]]:
    """Ask the diagnosis about each fault, from what is stored."""
    database = Database(f"sqlite:///{folder / 'fleet/service/tailwright.db'}")
    store = TelemetryStore(database, lambda: datetime.now(UTC))
    store.start()
    rows = []
    try:
        for fault in json.loads((folder / "faults.json").read_text()):
            rows.append(ask(database, store, Fault(**fault)))
    finally:
        store.close()
    return rows


def ask(database: Database, store: TelemetryStore, fault: Fault) -> dict[str, Any]:
    onset = instant(fault.began // WINDOW_S * WINDOW_S)
    before = Span(instant(fault.quiet), onset)
    during = Span(onset, instant(fault.ended // WINDOW_S * WINDOW_S))
    where = {"pool": POOL}

    def mean(metric: str, span: Span) -> float:
        found = store.histograms(Question(metric, span, where=where))
        return (found[0].total.mean or 0.0) if found else 0.0

    ratios = {metric: mean(metric, during) / (mean(metric, before) or 1.0) for metric in METRICS}
    metric = max(ratios, key=lambda name: ratios[name])
    measured = context.measured(store, where, metric, before, during)
    around = context.surroundings(store, where, metric, before, during)
    with database.read_session() as session:
        around = context.with_records(session, around, onset, during.end)
    shift = Shift(metric, 0.99, mean(metric, before), mean(metric, during), onset)
    read = read_shift(store, where, metric, 0.99, before, during)
    told = diagnose(shift, measured, around, read)
    return {
        "kind": fault.kind,
        "detail": fault.detail,
        "metric": metric,
        "ratio": ratios[metric],
        "causes": [(cause["cause"], cause.get("kind", ""), cause["score"]) for cause in told.causes],
        "message": told.causes[0]["message"],
        "hosts": {node: {name: asdict(one) for name, one in host.items()} for node, host in around.hosts.items()},
    }


def show(rows: list[dict[str, Any]]) -> None:
    print("| fault | detail | grew most | first cause | all causes | message |\n|---|---|---|---|---|---|")
    for row in rows:
        names = ", ".join(f"{name}{' ' + kind if kind else ''} {score:.2f}" for name, kind, score in row["causes"])
        first = row["causes"][0][0]
        grew = f"{row['metric']} x{row['ratio']:.1f}"
        print(f"| {row['kind']} | {row['detail']} | {grew} | {first} | {names} | {row['message']} |")
    print()
    for kind in dict.fromkeys(row["kind"] for row in rows):
        those = [row for row in rows if row["kind"] == kind]
        named = sum(row["causes"][0][0] == "host" for row in those)
        anywhere = sum(any(name == "host" for name, _, _ in row["causes"]) for row in those)
        print(f"{kind}: {named} of {len(those)} named host first, {anywhere} anywhere")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for the fleet's data; made anew")
    parser.add_argument("--judge", type=Path, help="ask the diagnosis again about an earlier run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second over both nodes")
    parser.add_argument("--each", type=int, default=5, help="faults of each kind of host fault")
    parser.add_argument("--configs", type=int, default=20, help="configuration faults")
    parser.add_argument("--kinds", nargs="*", default=list(HOST_KINDS), choices=HOST_KINDS)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    folder = wanted.judge
    if folder is None:
        if problem := injections.is_possible():
            raise SystemExit(problem)
        folder = wanted.out or Path(tempfile.mkdtemp(prefix="host-faults-"))
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(folder, wanted.seed, wanted.rate)
        order = [kind for kind in wanted.kinds for _ in range(wanted.each)] + ["config"] * wanted.configs
        run.chance.shuffle(order)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # What was injected is undone.
        try:
            run.start()
            configs = 0
            for kind in order:
                run.inject(kind, configs)
                configs += kind == "config"
            time.sleep(2 * WINDOW_S)
        finally:
            run.stop()
    rows = judge(folder)
    if wanted.json:
        print(json.dumps(rows, default=str))
    else:
        show(rows)


if __name__ == "__main__":
    main()
