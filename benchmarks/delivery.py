"""Is an alert lost, and does one receiver delay another? Alerts are told to receivers that fail, hang, drip and close,
while the service is killed at random.

The service is the real one, `tailwright up`, over SQLite or PostgreSQL; alerts are written into its database as its
evaluation writes them, and go on being written while it is dead. Each receiver notes what it took, by the letter's key:
a letter is lost when its key was never taken, out of order when "resolved" was first taken before "firing" of its
fingerprint. A letter's delay counts from its commit to its receipt, less what of this the service was dead (from the
kill until it is ready again); the receivers `good` and `far` (which answers after 100 ms) must stay under 5 s. Those
that misbehave do so at random or for the first part of the run, so each letter can arrive in the end.

    python -m benchmarks.delivery --alerts 10000 --per-second 25 --kills 12 --seed 1 --database sqlite postgresql
"""

import argparse
import os
import platform
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.delivery_measures.killed_service import KilledService
from benchmarks.delivery_measures.receivers import BEHAVIOURS, GOOD, Receiver
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import Postgresql
from controlplane.alerts.notify import outbox
from controlplane.alerts.tables import AlertRow
from controlplane.alerts.view import alert_view
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database

FIRST_PART, AT_LEAST_S = 0.5, 2.0
RESOLVED_EVERY = 5
LIMIT_S = 5.0
NO_RULE = 1_000_000
"""The number of a rule that there is not: the service's evaluation leaves these alerts alone."""
KINDS = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Told:
    """What came of it at one receiver."""

    behaviour: str
    letters: int
    lost: int
    disordered: int
    again: int
    wrong: int
    p50_s: float
    p99_s: float
    longest_s: float


@dataclass(frozen=True)
class Run:
    """A run's figures. took_s: until the last letter; cpu_s: of the service; load: of the machine, a minute's mean."""

    kind: str
    version: str
    alerts: int
    kills: int
    took_s: float
    dead_s: float
    cpu_s: float
    load: tuple[float, float]
    told: list[Told]

    @property
    def holds(self) -> bool:
        """None lost, none out of order, and the good ones in time."""
        good = [one for one in self.told if one.behaviour in GOOD]
        whole = not any(one.lost or one.disordered for one in self.told)
        return whole and all(one.longest_s <= LIMIT_S for one in good)


@contextmanager
def database_url(kind: str) -> Iterator[tuple[str | None, str]]:
    """None for the service's own file; and the database's version."""
    if kind == "sqlite":
        yield None, sqlite3.sqlite_version
        return
    server = Postgresql(os.sched_getaffinity(0))
    try:
        yield server.url, server.version
    finally:
        server.close()


def fire(database: Database, number: int) -> Iterator[str]:
    """Alert `number` fires, and each fifth is over at once; the letters' keys."""
    now = utc_now()
    with database.session() as session:
        about: dict[str, Any] = {"fingerprint": f"{number:016x}", "rule_id": NO_RULE, "rule": "r", "kind": "absolute"}
        about |= {"pool": "main", "state": "firing", "severity": "page", "labels": {"pool": "main"}}
        row = AlertRow(**about, summary=f"alert {number}", started_at=now, breach_since=now, fired_at=now)
        session.add(row)
        session.flush()
        outbox.enqueue_firing(session, alert_view(row), now, "http://t.test")
        yield f"{row.fingerprint}:firing:{now.isoformat()}"
        if number % RESOLVED_EVERY == 0:
            row.state, row.resolved_at = "resolved", now
            session.add(row)
            session.flush()
            outbox.enqueue_resolved(session, alert_view(row), now, "http://t.test")
            yield f"{row.fingerprint}:resolved:{now.isoformat()}"


def measure(
    folder: Path,
    alerts: int,
    per_second: float,
    kills: int,
    seed: int,
    kind: str = "sqlite",
    patience_s: float = 900.0,
) -> Run:
    """One run; returns when every receiver has every letter, or `patience_s` after the last alert."""
    dice = random.Random(seed)
    lasts_s = alerts / per_second
    with ExitStack() as stack:
        url, version = stack.enter_context(database_url(kind))
        service = KilledService(folder, url)
        stack.callback(service.stop)
        receivers = []
        for number, name in enumerate(BEHAVIOURS):
            receivers.append(Receiver(name, seed + number, max(FIRST_PART * lasts_s, AT_LEAST_S)))
            stack.callback(receivers[-1].close)
            service.add_destination(name, receivers[-1].url)
        database = Database(service.database_url)
        stack.callback(database.close)
        before, began = os.getloadavg()[0], time.time()
        kill_at = sorted(began + dice.uniform(0, lasts_s) for _ in range(kills))
        killer = threading.Thread(target=_kill_at, args=(service, kill_at), daemon=True)
        killer.start()
        committed = _fire_all(database, alerts, per_second, began)
        _until(lambda: all(len(one.took) >= len(committed) for one in receivers), patience_s)
        took_s, cpu_s = time.time() - began, service.cpu_s
        killer.join()
        load, dead_s = (before, os.getloadavg()[0]), sum(end - start for start, end in service.dead)
        told = [_told(one, committed, service) for one in receivers]
        return Run(kind, version, alerts, service.kills, took_s, dead_s, cpu_s, load, told)


def _fire_all(database: Database, alerts: int, per_second: float, began: float) -> dict[str, float]:
    """When each letter was committed, by key."""
    committed: dict[str, float] = {}
    for number in range(alerts):
        time.sleep(max(0.0, began + number / per_second - time.time()))
        keys = list(fire(database, number))
        committed |= dict.fromkeys(keys, time.time())
    return committed


def _kill_at(service: KilledService, moments: list[float]) -> None:
    for at in moments:
        time.sleep(max(0.0, at - time.time()))
        service.kill()


def _until(done: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)


def _told(receiver: Receiver, committed: dict[str, float], service: KilledService) -> Told:
    delays = sorted(
        max(0.0, at - committed[key] - service.dead_between(committed[key], at)) for key, at in receiver.took.items()
    )
    seen: set[str] = set()
    disordered = 0
    for group, status in receiver.order:
        disordered += status == "resolved" and group not in seen
        seen |= {group} if status == "firing" else set()
    at = [delays[min(len(delays) - 1, int(q * len(delays)))] if delays else 0.0 for q in (0.5, 0.99)]
    lost = len(committed.keys() - receiver.took.keys())
    longest = delays[-1] if delays else 0.0
    p50_s, p99_s = at
    counted = (len(committed), lost, disordered, receiver.again, receiver.wrong)
    return Told(receiver.behaviour, *counted, p50_s, p99_s, longest)


def table(run: Run) -> str:
    head = "receiver", "letters", "lost", "out of order", "twice", "went wrong", "delay p50 / p99 / longest, s"
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in run.told:
        delays = f"{one.p50_s:.2f} / {one.p99_s:.2f} / {one.longest_s:.2f}"
        counts = (one.letters, one.lost, one.disordered, one.again, one.wrong)
        lines.append(f"| {one.behaviour} | " + " | ".join(f"{count:,}" for count in counts) + f" | {delays} |")
    return "\n".join(lines)


def heading(run: Run, seed: int, per_second: float) -> str:
    wrote = (
        f"{run.alerts:,} alerts at {per_second:g} a second, {run.kills} kills ({run.dead_s:.0f} s dead), seed {seed}"
    )
    took = f"{run.took_s:.0f} s, service {run.cpu_s:.0f} s of CPU, load {run.load[0]:.1f} to {run.load[1]:.1f}"
    on = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{run.kind} {run.version}: {wrote}; {took}; {on}; {'holds' if run.holds else 'DOES NOT HOLD'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alerts", type=int, default=10_000)
    parser.add_argument("--per-second", type=float, default=25.0)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    runs = []
    for kind in given.database:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(measure(Path(folder), given.alerts, given.per_second, given.kills, given.seed, kind))
        print(f"{heading(runs[-1], given.seed, given.per_second)}\n\n{table(runs[-1])}\n", flush=True)
    sys.exit(0 if all(run.holds for run in runs) else 1)


if __name__ == "__main__":
    main()
