"""Simulated agents under kills: several connections that send numbered reports again until each is acknowledged.

Guarantee: `acknowledged` holds exactly the numbers that a 200 has come for. `forget` is what a killed agent does: its
connections break where they are, and the last reports go out again, acknowledged or not.
"""

import asyncio
import heapq
import threading
from collections import Counter

from benchmarks.telemetry_measures.fleet.http_connection import Connection, ConnectionLost
from benchmarks.telemetry_measures.under_kills.kill_reports import KillReports

CONNECTIONS = 6
FORGOTTEN = 60
_ANSWER_LIMIT_S = 15.0


class KillSenders:
    """`start` it, `pause` it between runs (nothing is under way then), `close` it."""

    def __init__(self, url: str, token: str, reports: KillReports, per_s: float) -> None:
        self.acknowledged: set[int] = set()
        self.sent: set[int] = set()
        self.refused: list[str] = []
        self.statuses: Counter[int] = Counter()
        self._url, self._token, self._reports, self._per_s = url, token, reports, per_s
        self._again: list[int] = []
        self._next = 0
        self._most = 0
        self._settled = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._connections = [Connection(url) for _ in range(CONNECTIONS)]
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, new_reports: bool = True) -> None:
        """Send what waits to be sent again and, if wanted, new reports at the set rate."""
        self._call(self._start(new_reports))

    def pause(self) -> None:
        """Break off what is under way: it goes out again later."""
        self._call(self._pause())

    def forget(self) -> None:
        """Killed and started again: the last reports once more."""
        self._call(self._forget())

    def finish(self, limit_s: float) -> bool:
        """Send all that was begun until it is acknowledged; False when it is not by then."""
        self.start(new_reports=False)
        try:
            return asyncio.run_coroutine_threadsafe(self._all_acknowledged(), self._loop).result(limit_s)
        except TimeoutError:
            return False
        finally:
            self.pause()

    def close(self) -> None:
        self.pause()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: "asyncio.Future[None] | object") -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60.0)  # type: ignore[arg-type]

    async def _start(self, new_reports: bool) -> None:
        self._most = self._next
        self._tasks = [self._loop.create_task(self._send(connection)) for connection in self._connections]
        if new_reports:
            self._tasks.append(self._loop.create_task(self._make()))

    async def _pause(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for connection in self._connections:
            connection.close()
        self._again = sorted(self.sent - self.acknowledged | set(self._again))
        heapq.heapify(self._again)

    async def _forget(self) -> None:
        await self._pause()
        self._again = sorted(set(self._again) | set(range(max(0, self._next - FORGOTTEN), self._next)))
        heapq.heapify(self._again)
        await self._start(True)

    async def _make(self) -> None:
        while True:
            self._most += max(1, round(self._per_s / 50))
            await asyncio.sleep(0.02)

    async def _send(self, connection: Connection) -> None:
        while True:
            if self._again:
                number = heapq.heappop(self._again)
            elif self._next < self._most:
                number, self._next = self._next, self._next + 1
            else:
                await asyncio.sleep(0.005)
                continue
            self.sent.add(number)
            if not await self._delivered(connection, number):
                heapq.heappush(self._again, number)
                await asyncio.sleep(0.05)

    async def _delivered(self, connection: Connection, number: int) -> bool:
        headers, body = self._reports.request(number)
        lines = {"Authorization": f"Bearer {self._token}", **headers}
        head = "POST /v1/metrics HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        try:
            answer = await connection.request(head.encode(), body, _ANSWER_LIMIT_S)
        except ConnectionLost:
            return False
        self.statuses[answer.status] += 1
        if answer.status == 200 and not answer.body:
            self.acknowledged.add(number)
            self._settled.set()
            return True
        if answer.status == 200 or (answer.status < 500 and answer.status != 429):
            self.refused.append(f"report {number}: {answer.status} {answer.body[:200]!r}")
            return True
        return False

    async def _all_acknowledged(self) -> bool:
        while not self.sent <= self.acknowledged:
            self._settled.clear()
            await self._settled.wait()
        return True
