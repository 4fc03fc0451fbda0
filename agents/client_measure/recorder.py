"""Takes the records of all clients of a program, adds them up, and ships them where a service is named.

Guarantee: `record` neither waits nor does I/O: a caller that finds the recorder busy leaves its record to whoever is at
it. What cannot be sent is dropped, oldest first, and counted; nothing is ever raised into the caller. Thread-safe.
"""

import socket
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from agents.client_measure.client_record import ClientRecord
from agents.client_measure.join import NetworkTime
from agents.client_measure.otlp_body import Sender
from agents.client_measure.record_tally import Tally, Window
from agents.client_measure.recorder_snapshot import Snapshot
from agents.client_measure.report_thread import REPORT_INTERVAL_S, Shipper

KEPT_RECORDS = 10_000
_WINDOWS_UNTAKEN = 24
"""Windows kept apart while nobody takes them: they only matter to a report."""


class Recorder:
    """client: who reports, the label `node` of its series; the host's name where none is given.

    pool: whose server is asked, the label `pool`. keep: so many newest records are kept for `take_records`.
    """

    def __init__(
        self, client: str | None = None, *, pool: str = "", region: str = "", keep: int = KEPT_RECORDS
    ) -> None:
        self.sender = Sender(client or socket.gethostname(), pool, region)
        self._incoming: deque[ClientRecord | NetworkTime] = deque()
        self._busy = threading.Lock()
        self._tally = Tally()
        self._kept: deque[ClientRecord] = deque(maxlen=keep)
        self._shipper: Shipper | None = None

    def record(self, record: ClientRecord) -> None:
        """Count one request."""
        self._incoming.append(record)
        self._count_waiting()

    def record_network(self, times: Iterable[NetworkTime]) -> None:
        """Count joined network times, each once: `NetworkJoin` sees to that."""
        self._incoming.extend(times)
        self._count_waiting()

    def snapshot(self) -> Snapshot:
        """All counted so far."""
        with self._busy:
            self._count_all()
            return Snapshot(self._tally.totals(), 0 if self._shipper is None else self._shipper.dropped)

    def take_records(self) -> list[ClientRecord]:
        """The records since the last call, oldest first, at most the newest `keep`; without their gaps, which are
        counted already."""
        with self._busy:
            self._count_all()
            taken = list(self._kept)
            self._kept.clear()
        return taken

    def ship_to(self, url: str, token: str | None = None, *, interval_s: float = REPORT_INTERVAL_S) -> Self:
        """Send reports to the service at `url` from a thread of its own, until `close`. Wants httpx.

        Raises RuntimeError when it ships already.
        """
        if self._shipper is not None:
            raise RuntimeError("this recorder ships its reports already")
        self._shipper = Shipper(self._take, self.sender, url, token, interval_s=interval_s)
        self._shipper.start()
        return self

    @property
    def shipper(self) -> Shipper | None:
        """Its counters tell what was sent and what was dropped; None where nothing is shipped."""
        return self._shipper

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is left, within so many seconds. Records can still be counted afterwards."""
        if self._shipper is not None:
            self._shipper.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> dict[int, Window]:
        with self._busy:
            self._count_all()
            return self._tally.take()

    def _count_waiting(self) -> None:
        """Whoever holds the lock counts for all. An object that ends inside of it may record, and must not wait."""
        while self._incoming and self._busy.acquire(blocking=False):
            try:
                self._count_all()
            finally:
                self._busy.release()

    def _count_all(self) -> None:
        while self._incoming:
            self._count(self._incoming.popleft())

    def _count(self, one: ClientRecord | NetworkTime) -> None:
        tally = self._tally
        if isinstance(one, NetworkTime):
            tally.count_network(one)
        else:
            tally.count(one)
            self._kept.append(replace(one, gaps_s=()))
        if self._shipper is None and len(tally.windows) > _WINDOWS_UNTAKEN:
            tally.take()
