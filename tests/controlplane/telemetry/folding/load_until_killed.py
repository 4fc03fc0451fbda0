"""A process to be killed: loads bundle after bundle and prints the number of each one that was acknowledged.

Arguments: database URL, first bundle, one past the last. Folding goes on all the while. Each bundle has two parts, and
each part a window of its own, so that a reader can tell of every one how often it was counted.
"""

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from controlplane.contract import metrics
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports.packed_report import PackedNumber, PackedReport, Section, encode
from controlplane.contract.reports.report_bundle import bundle
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SPACING = 12
"""Windows of 5 s from one part's to the next one's."""
THREADS = 2


def part(number: int) -> bytes:
    """`number` counts parts from 0."""
    report = PackedReport(
        stream=b"f" * 16,
        ordinal=number + 1,
        resource={metrics.NODE.name: "n1"},
        metrics=((metrics.REQUESTS.name, MetricKind.SUM),),
        labels=({},),
        sections=(Section(int(START.timestamp()) // 5 + SPACING * number, (), (PackedNumber(0, 0, 1.0),)),),
    )
    return bundle([encode(report)])


def parts_of(number: int) -> Sequence[int]:
    """The parts of a bundle."""
    return (2 * number, 2 * number + 1)


def clock() -> datetime:
    return START + timedelta(hours=30)


def main(url: str, first: int, last: int) -> None:
    store = TelemetryStore(Database(url), clock)
    store.start()
    printing = threading.Lock()

    def load(number: int) -> None:
        found = store.submit_bundle(b"".join(map(part, parts_of(number)))).result(60)
        assert all(one.entry.accepted + one.entry.repeated == 1 for one in found.parts)
        with printing:
            print(number, flush=True)

    def fold() -> None:
        while True:
            store.tick(clock())

    threading.Thread(target=fold, daemon=True).start()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(load, range(first, last)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
