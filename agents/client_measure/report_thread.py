"""Sends a recorder's reports from a thread of its own.

Guarantee: nothing waits for it; at most `MOST_REPORTS` wait in memory, the oldest is dropped and counted; a report
that the service may have taken already is sent again under the same number, by which it is recognised. These reports
are for looking, not for the record: they do not outlive the process.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from agents.client_measure.otlp_body import Sender, encode
from agents.client_measure.record_tally import Window
from agents.host.backoff import Backoff, spread_s
from controlplane.contract.clock import utc_now
from controlplane.contract.reports.packed_report import REPORT_HEADER, STREAM_BYTES, report_header
from controlplane.contract.retry import refuses_body, retry_after_s

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 5.0
MOST_REPORTS = 120
PATH = "/v1/metrics"
_TIMEOUT_S = 10.0
_LONGEST_WAIT_S = 300.0


class _Report(NamedTuple):
    ordinal: int
    body: bytes
    told_dropped: int
    """So many dropped reports it tells of."""


class Shipper:
    """`take` gives the windows since the last call. transport: for tests, of httpx."""

    def __init__(
        self,
        take: Callable[[], dict[int, Window]],
        sender: Sender,
        url: str,
        token: str | None,
        *,
        interval_s: float = REPORT_INTERVAL_S,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        import httpx

        self._take, self._sender, self._interval_s = take, sender, interval_s
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The token goes to the service alone, whatever proxy the environment names.
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=_TIMEOUT_S,
            transport=transport,
            verify=httpx.create_ssl_context(),
            trust_env=False,
        )
        self._error = httpx.HTTPError
        self._stream = os.urandom(STREAM_BYTES)
        self._ordinal = 0
        self._waiting: deque[_Report] = deque()
        self._backoff = Backoff(interval_s)
        self._not_before = 0.0
        self._untold = 0  # Dropped reports that no report has told of yet.
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailwright-client", daemon=True)
        self.sent = 0
        self.dropped = 0
        self.last_error = ""

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Send what there is, once; whatever then is left is dropped."""
        self._ending.set()
        self._thread.join(timeout_s)
        self._http.close()

    def ship(self) -> None:
        """Put what was counted into a report, and send all that wait, unless the service has asked for patience."""
        windows = self._take()
        if windows:
            self._ordinal += 1
            shift_ns = int.from_bytes(self._stream[:4], "little") + self._ordinal
            body = encode(windows, self._sender, shift_ns, self._untold)
            self._waiting.append(_Report(self._ordinal, body, self._untold))
            self._untold = 0
        while len(self._waiting) > MOST_REPORTS:
            self._drop("too many wait")
        if time.monotonic() >= self._not_before:
            self._send_waiting()

    def _run(self) -> None:
        while not self._ending.wait(self._interval_s):
            self.ship()
        self._not_before = 0.0
        self.ship()
        while self._waiting:
            self._drop("the recorder was closed")

    def _send_waiting(self) -> None:
        while self._waiting:
            if not self._send(self._waiting[0]):
                return
            self._backoff.reset()

    def _send(self, report: _Report) -> bool:
        """Whether the report is settled: taken, or refused for what it is."""
        headers = {"Content-Type": "application/json", REPORT_HEADER: report_header(self._stream, report.ordinal)}
        try:
            answer = self._http.post(PATH, content=report.body, headers=headers)
        except self._error as error:
            self._wait(f"{PATH}: {str(error) or type(error).__name__}", None)
            return False
        if answer.status_code == 200:
            self._waiting.popleft()
            self.sent += 1
            self.last_error = ""
            return True
        said = f"{PATH} answered {answer.status_code}: {answer.text[:300]}"
        if refuses_body(answer.status_code):
            self._drop(said)
            return True
        self._wait(said, retry_after_s(answer.headers.get("Retry-After"), utc_now(), _LONGEST_WAIT_S))
        return False

    def _wait(self, error: str, asked_s: float | None) -> None:
        if error != self.last_error:
            log.warning("client reports wait: %s", error)
        self.last_error = error
        wait_s = self._backoff.next_s() if asked_s is None else spread_s(asked_s)
        self._not_before = time.monotonic() + wait_s

    def _drop(self, reason: str) -> None:
        report = self._waiting.popleft()
        self.dropped += 1
        self._untold += 1 + report.told_dropped
        self.last_error = reason
        log.warning("client report %d is dropped unsent: %s", report.ordinal, reason)
