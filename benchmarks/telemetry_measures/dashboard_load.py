"""The queries that open dashboards make, at a steady rate, while something else is measured.

Of ten: five headline figures (last minute of a pool), two charts of a pool (15 minutes in steps of 10 s), a chart of
the whole fleet (an hour in steps of 30 s), a node's page, and a comparison by prompt bucket.
"""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from benchmarks.telemetry_measures.fleet.report_bodies import node_name, pool_name
from controlplane.client import Client
from controlplane.contract.errors import TailwrightError

THREADS = 4
HEADLINE = ("ttft", "itl", "e2e")
Query = tuple[str, Callable[[Client], object]]


@dataclass
class DashboardOutcome:
    """Seconds of each answer by kind of query; `late`: queries begun over a second after they were due."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    late: int = 0

    @property
    def answered(self) -> int:
        return sum(map(len, self.seconds.values()))


class DashboardLoad:
    """`with DashboardLoad(url, token, ...) as load: ...`; then `load.outcome`."""

    def __init__(self, url: str, token: str, *, nodes: int, pools: int, per_s: float = 10.0, seed: int = 1) -> None:
        self.outcome = DashboardOutcome()
        self._url, self._token, self._per_s = url, token, per_s
        self._queries = _queries(nodes, pools, seed)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._began = 0.0
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(THREADS)]

    def __enter__(self) -> "DashboardLoad":
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with Client(self._url, self._token, timeout_s=60.0) as client:
            while not self._over.is_set():
                with self._lock:
                    kind, ask = next(self._queries)
                    due = self._began + next(self._numbers) / self._per_s
                if self._over.wait(max(0.0, due - time.monotonic())):
                    return
                began = time.monotonic()
                failure = ""
                try:
                    ask(client)
                except (TailwrightError, httpx.HTTPError) as error:
                    failure = f"{kind}: {type(error).__name__}: {error}"
                with self._lock:
                    self.outcome.late += began - due > 1.0
                    if failure:
                        self.outcome.failures.append(failure)
                    else:
                        self.outcome.seconds[kind].append(time.monotonic() - began)


def _queries(nodes: int, pools: int, seed: int) -> Iterator[Query]:
    chosen = random.Random(seed)
    while True:
        pool = pool_name(chosen.randrange(pools))
        for metric in (*HEADLINE, *HEADLINE[:2]):
            yield "headline, 1 min of a pool", _asking(metric, window="1m", pool=pool)
        for metric in HEADLINE[:2]:
            yield "chart, 15 min at 10 s of a pool", _asking(metric, window="15m", step="10s", pool=pool)
        yield "chart, 1 h at 30 s of the fleet", _asking("ttft", window="1h", step="30s")
        yield "a node, 5 min at 5 s", _asking("ttft", window="5m", step="5s", node=node_name(chosen.randrange(nodes)))
        yield "by prompt bucket, 15 min of the fleet", _asking("e2e", window="15m", by=("prompt_bucket",))


def _asking(metric: str, **asked: object) -> Callable[[Client], object]:
    return lambda client: client.quantiles(metric, **asked)  # type: ignore[arg-type]
