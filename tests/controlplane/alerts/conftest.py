"""A simulated pool that fills a reader, and a database in a file."""

import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

import controlplane.alerts.tables
import controlplane.auth.tables
import controlplane.fleet.tables
import controlplane.ledger.tables  # noqa: F401
from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import WINDOW_S
from controlplane.db import Database
from controlplane.evidence.sketch import Sketch
from tests.controlplane.telemetry.fake_reader import FakeReader, axis_positions
from tests.made_tables import create_tables
from tests.mail_server import MailServer

START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def sketch_of(values: Any) -> Sketch:
    """A sketch of seconds."""
    values = np.asarray(values, dtype=float)
    return Sketch(
        np.bincount(axis_positions(values), minlength=AXIS_LENGTH),
        total=float(values.sum()),
        minimum=float(values.min()),
        maximum=float(values.max()),
    )


@dataclass
class Plant:
    """A pool that serves requests into a FakeReader. `now` is the end of what it has served."""

    telemetry: FakeReader
    now: datetime = START
    pool: str = "main"
    node: str = "a"
    seed: int = 7

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def serve(
        self,
        seconds: float,
        *,
        rate: float = 6.0,
        prefill: float = 1.0,
        queue: float = 1.0,
        itl: float = 1.0,
        revision: int = 1,
        mix: Mapping[str, float] | None = None,
        cache: str = "miss",
        evenly: bool = False,
    ) -> None:
        """Serve for a while. The factors multiply latencies; longer prompts prefill longer."""
        mix = mix or {"<=128": 0.5, "<=512": 0.5}
        for _ in range(round(seconds / WINDOW_S)):
            for bucket, share in sorted(mix.items()):
                expected = rate * WINDOW_S * share
                n = round(expected) if evenly else int(self.random.poisson(expected))
                if n == 0:
                    continue
                length = {"<=128": 1.0, "<=512": 2.0, "<=2k": 8.0}[bucket]
                parts = {
                    "receive": 0.001 * self._noise(n),
                    "tokenize": 0.002 * self._noise(n),
                    "queue": 0.02 * queue * self._noise(n),
                    "prefill": 0.08 * length * prefill * self._noise(n),
                    "decode": 0.4 * itl * self._noise(n),
                    "send": 0.001 * self._noise(n),
                    "unaccounted": 0.0005 * self._noise(n),
                }
                ttft = parts["receive"] + parts["tokenize"] + parts["queue"] + parts["prefill"]
                values = {**parts, "ttft": ttft, "e2e": sum(parts.values())}
                values["itl"] = 0.02 * itl * self._noise(20 * n)
                values["step_forward"] = values["itl"] * 0.9
                values["step_sample"] = 0.002 * self._noise(20 * n)
                labels = {
                    "pool": self.pool,
                    "node": self.node,
                    "model": "m",
                    "revision": str(revision),
                    "prompt_bucket": bucket,
                    "cache_class": cache,
                }
                for metric, data in values.items():
                    self.telemetry.add(metric, self.now, sketch_of(data), **labels)
            self.now += timedelta(seconds=WINDOW_S)

    def _noise(self, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.random.lognormal(0.0, 0.4, n)


@pytest.fixture
def telemetry() -> FakeReader:
    return FakeReader()


@pytest.fixture
def plant(telemetry: FakeReader) -> Plant:
    return Plant(telemetry)


@pytest.fixture
def new_plant() -> type[Plant]:
    return Plant


@pytest.fixture
def sketch() -> Any:
    return sketch_of


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/tailwright.db")
    create_tables(made)
    yield made
    made.close()


@dataclass
class Receiver:
    """A real HTTP server that remembers what it got. `answers` are the statuses of the next requests, then 200."""

    url: str
    answers: list[int | tuple[int, dict[str, str]]] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    body: bytes = b""

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one_by_one = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with one_by_one:
                box.got.append((dict(self.headers.items()), body))
                answer = box.answers.pop(0) if box.answers else 200
            status, headers = (answer, {}) if isinstance(answer, int) else answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(box.body)))
            self.end_headers()
            self.wfile.write(box.body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    box = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield box
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def expected_mac() -> Any:
    """The signature computed without our code, as somebody else's receiver would."""

    def mac(secret: str, stamp: str, body: bytes) -> str:
        return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()

    return mac


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def mail(authority: trustme.CA) -> Iterator[MailServer]:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(served)
    with MailServer(served) as server:
        yield server
