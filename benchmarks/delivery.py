"""Is an alert lost, and does one receiver delay another? Alerts are told to receivers that fail, hang, drip and close,
while the sender is killed at random.

The outbox, the sender and its protocols are the service's own, in a process of their own over one SQLite file; alerts
are written as the evaluation writes them. Each receiver notes what it took, by the letter's key: a letter is lost when
its key was never taken, out of order when "resolved" was first taken before "firing" of its fingerprint. A letter's
delay counts from its commit to its receipt, less what of this the sender was dead; the receivers `good` must stay under
5 s. Those that misbehave do so at random or for the first part of the run, so each letter can arrive in the end.

    python -m benchmarks.delivery --alerts 10000 --per-second 25 --kills 12 --seed 1
"""

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from controlplane.alerts.notify import outbox
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.store import create_destination
from controlplane.alerts.tables import AlertRow
from controlplane.alerts.view import alert_view
from controlplane.app.tables import all_tables
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.keys import Keyring
from controlplane.outgoing import ANYWHERE

BEHAVIOURS = ("good", "good too", "fails", "hangs", "drips", "closes")
GOOD = frozenset({"good", "good too"})
AT_RANDOM = {"fails": 0.2, "closes": 0.2}
"""Share of the requests that go wrong, all the time; `hangs` and `drips` always do, in the first part of a run."""
FIRST_PART, AT_LEAST_S = 0.5, 2.0
RESOLVED_EVERY = 5
TICK_S = 1.0
"""As the service looks."""
LIMIT_S = 5.0


@dataclass
class Receiver:
    """took: by key, when it first took it, and how often. bad_for_s: from its first request on it hangs or drips."""

    behaviour: str
    seed: int
    bad_for_s: float
    bad_until: float | None = None
    took: dict[str, float] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    again: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        self._dice, self._lock = random.Random(self.seed), threading.Lock()
        self.ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def misbehaves(self) -> bool:
        with self._lock:
            bad = self._dice.random() < AT_RANDOM.get(self.behaviour, 0.0)
            self.bad_until = self.bad_until or time.time() + self.bad_for_s
            bad |= self.behaviour in ("hangs", "drips") and time.time() < self.bad_until
            self.wrong += bad
            return bad

    def note(self, key: str, body: dict[str, str]) -> None:
        with self._lock:
            self.again += key in self.took
            if key not in self.took:
                self.took[key] = time.time()
                self.order.append((body["groupKey"], body["status"]))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.misbehaves():
                    with suppress(OSError):
                        self._misbehave()
                    return
                if len(body) < int(self.headers["Content-Length"]):
                    return  # The sender was killed over it.
                receiver.note(self.headers["Idempotency-Key"], json.loads(body))
                self._answer(200)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _misbehave(self) -> None:
                self.close_connection = True
                if receiver.behaviour == "fails":
                    self._answer(500)
                elif receiver.behaviour == "closes":
                    self.connection.shutdown(socket.SHUT_RDWR)
                elif receiver.behaviour == "hangs":
                    receiver.ended.wait(60)
                else:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not receiver.ended.wait(0.1):
                        self.wfile.write(b"x")

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        return Handler


class Sender:
    """The sender's process; `dead`: from when to when there was none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.dead: list[tuple[float, float]] = []
        self.kills = 0
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.delivery", "--sender", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the sender did not start")

    def kill(self) -> None:
        """kill -9, and another at once."""
        since = time.time()
        self.stop()
        self._start()
        self.dead.append((since, time.time()))
        self.kills += 1

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def dead_between(self, start: float, end: float) -> float:
        """Seconds."""
        return sum(max(0.0, min(end, until) - max(start, since)) for since, until in self.dead)


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
    """A run's figures. took_s: until the last letter."""

    alerts: int
    kills: int
    took_s: float
    told: list[Told]

    @property
    def holds(self) -> bool:
        """None lost, none out of order, and the good ones in time."""
        good = [one for one in self.told if one.behaviour in GOOD]
        whole = not any(one.lost or one.disordered for one in self.told)
        return whole and all(one.longest_s <= LIMIT_S for one in good)


def open_database(folder: Path) -> tuple[Database, Keyring]:
    database = Database(f"sqlite:///{folder}/delivery.db")
    all_tables().create_all(database.engine)
    keyring = Keyring(folder / "secrets.key")
    if not (folder / "secrets.key").exists():
        keyring.add()
    keyring.open(database)
    return database, keyring


def send(folder: Path) -> None:
    """The sender's process: what the service does for deliveries, and nothing else."""
    database, keyring = open_database(folder)
    deliverer = Deliverer(database, keyring, policy=ANYWHERE, sole=True)
    print("ready", flush=True)
    while True:
        deliverer.tick(utc_now())
        time.sleep(TICK_S)


def fire(database: Database, number: int) -> Iterator[str]:
    """Alert `number` fires, and each fifth is over at once; the letters' keys."""
    now = utc_now()
    with database.session() as session:
        about: dict[str, Any] = {"fingerprint": f"{number:016x}", "rule_id": 1, "rule": "r", "kind": "absolute"}
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


def measure(folder: Path, alerts: int, per_second: float, kills: int, seed: int, patience_s: float = 900.0) -> Run:
    """One run; returns when every receiver has every letter, or `patience_s` after the last alert."""
    dice = random.Random(seed)
    database, keyring = open_database(folder)
    lasts_s = alerts / per_second
    bad_for_s = max(FIRST_PART * lasts_s, AT_LEAST_S)
    receivers = [Receiver(name, seed + n, bad_for_s) for n, name in enumerate(BEHAVIOURS)]
    with database.session() as session:
        for one in receivers:
            wanted = DestinationCreate(name=one.behaviour, url=one.url)
            create_destination(session, wanted, keyring, actor="bench", now=utc_now())
    sender = Sender(folder)
    began = time.time()
    kill_at = sorted(dice.uniform(0, lasts_s) for _ in range(kills))
    killer = threading.Thread(target=_kill_at, args=(sender, [began + at for at in kill_at]), daemon=True)
    killer.start()
    committed: dict[str, float] = {}
    for number in range(alerts):
        time.sleep(max(0.0, began + number / per_second - time.time()))
        keys = list(fire(database, number))
        committed |= dict.fromkeys(keys, time.time())
    _until(lambda: all(len(one.took) >= len(committed) for one in receivers), patience_s)
    took_s = time.time() - began
    killer.join()
    sender.stop()
    for one in receivers:
        one.close()
    database.close()
    return Run(alerts, sender.kills, took_s, [_told(one, committed, sender) for one in receivers])


def _kill_at(sender: Sender, moments: list[float]) -> None:
    for at in moments:
        time.sleep(max(0.0, at - time.time()))
        sender.kill()


def _until(done: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)


def _told(receiver: Receiver, committed: dict[str, float], sender: Sender) -> Told:
    delays = sorted(
        max(0.0, at - committed[key] - sender.dead_between(committed[key], at)) for key, at in receiver.took.items()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alerts", type=int, default=10_000)
    parser.add_argument("--per-second", type=float, default=25.0)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sender", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sender is not None:
        send(given.sender)
    with tempfile.TemporaryDirectory() as folder:
        run = measure(Path(folder), given.alerts, given.per_second, given.kills, given.seed)
    print(f"{run.alerts:,} alerts, {run.kills} kills, {run.took_s:.0f} s, seed {given.seed}")
    print(table(run))
    sys.exit(0 if run.holds else 1)


if __name__ == "__main__":
    main()
