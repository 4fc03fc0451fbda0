"""Seeded fuzzing of the service, the embedded engine and the vLLM proxy, as real processes on loopback.

What counts as a fault: an answer of 500 or more (but a 503 that says when to come again), no answer to a whole request,
an answer that is none, silence of over 5 s, a process that has ended. Each is told with surface and number, which draw
the same bytes again. Time in which the process, or this one, was ready to run and others had the processors is no
silence. Traces in the processes' logs are counted: an answer that nobody waited for is seen there.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.chaos_measures import fuzz_targets
from benchmarks.chaos_measures.fuzz_shots import NODES, Shot, Surface, surfaces
from benchmarks.chaos_measures.fuzz_targets import Target, Targets
from benchmarks.chaos_measures.raw_exchange import Answer, Ended, Unreadable, Wire
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.vllm_measures.processes import Nursery

LIMIT_S, MOST_S = 5.0, 120.0
"""Of silence: without what the process waited for a processor, and with it."""
_PATIENCE_S = 0.04
_MOST_TOLD = 30
_ALLOWED = {501, 505}
"""Right answers to what is hardly HTTP: no such method, no such version (RFC 9110, section 15.6)."""
_CLASSES = ("2xx", "3xx", "4xx", "5xx", "closed", "silent")


@dataclass(frozen=True)
class Fault:
    """kind: 5xx, silent, no answer, unreadable or end."""

    kind: str
    surface: str
    number: int
    shot: str
    answer: str

    @property
    def told(self) -> str:
        return f"{self.kind}: `{self.surface}:{self.number}` {self.shot[:200]}: {self.answer[:300]}"


@dataclass
class Tally:
    """By surface: answers by class, and the longest wait for one in seconds."""

    answers: dict[str, Counter[str]] = field(default_factory=dict)
    slowest_s: dict[str, float] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, surface: str, kind: str, seconds: float) -> None:
        self.answers.setdefault(surface, Counter())[kind] += 1
        self.slowest_s[surface] = max(seconds, self.slowest_s.get(surface, 0.0))

    @property
    def sent(self) -> int:
        return sum(one.total() for one in self.answers.values())


@dataclass(frozen=True)
class Growth:
    """Resident MiB of one process: after the first twentieth of what was sent to it, half way, at the end.

    slope: MiB for each 100,000 requests, by least squares over the second half.
    """

    process: str
    sent: int
    first: float
    half: float
    last: float
    slope: float


@dataclass(frozen=True)
class Outcome:
    seed: int
    requests: int
    seconds: float
    tally: Tally
    growth: list[Growth]
    ends: dict[str, list[str]]
    traces: dict[str, int]
    heaps: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.tally.faults and not any(self.ends.values())

    def save(self, path: Path) -> None:
        # `asdict` would make a counter of a counter's items.
        answers = {name: dict(found) for name, found in self.tally.answers.items()}
        found = {
            "seed": self.seed,
            "seconds": self.seconds,
            "sent": self.tally.sent,
            "answers": answers,
            "slowest_s": self.tally.slowest_s,
            "faults": [asdict(fault) for fault in self.tally.faults],
            "growth": [asdict(one) for one in self.growth],
            "ends": self.ends,
            "traces": self.traces,
            "heaps": self.heaps,
        }
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")


async def run(nursery: Nursery, requests: int, seed: int, only: str | None = None) -> Outcome:
    """only: SURFACE or SURFACE:NUMBER, one surface or one shot. Raises `WorkerFailed` when a process does not start."""
    server, port = await fuzz_targets.upstream()
    targets = await asyncio.to_thread(fuzz_targets.start, nursery, port, NODES)
    tally = Tally()
    watching = asyncio.create_task(fuzz_targets.watch(targets))
    telling = asyncio.create_task(_tell(tally, requests))
    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            for surface, numbers in _plan(surfaces(targets, seed), requests, only):
                target = next(one for one in targets.all if one.name == surface.target)
                worker = _Worker(surface, target, targets, tally, seed)
                group.create_task(worker.work(numbers))
    finally:
        for task in (watching, telling):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        server.close()
    seconds = time.monotonic() - began
    await asyncio.to_thread(fuzz_targets.look_at_heaps, targets.service)
    ends = {target.name: list(target.ends) for target in targets.all}
    for target in targets.all:
        target.look()
        if not target.child.is_alive:
            ends[target.name].append(target.child.log_end()[-600:])
    traces = {target.name: target.child.log.read_bytes().count(b"Traceback (most recent") for target in targets.all}
    return Outcome(
        seed, requests, seconds, tally, [_growth(target) for target in targets.all], ends, traces, targets.service.heaps
    )


def _plan(found: list[Surface], requests: int, only: str | None) -> list[tuple[Surface, range]]:
    """Each worker with the numbers it sends."""
    name, _, number = (only or "").partition(":")
    plan = []
    for surface in found:
        if only and surface.name != name:
            continue
        if number:
            return [(surface, range(int(number), int(number) + 1))]
        count = round(requests * (1.0 if only else surface.share))
        plan += [(surface, range(worker, count, surface.workers)) for worker in range(surface.workers)]
    return plan


async def _tell(tally: Tally, requests: int) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(10.0)
        rate = tally.sent / (time.monotonic() - began)
        progress(f"fuzz: {tally.sent} of {requests}, {rate:.0f} a second, {len(tally.faults)} faults")


class _Worker:
    """One connection's worth of shots to one surface."""

    def __init__(self, surface: Surface, target: Target, targets: Targets, tally: Tally, seed: int) -> None:
        self._surface, self._target, self._tally, self._seed = surface, target, tally, seed
        self._wire = Wire(targets.addresses[surface.address])

    async def work(self, numbers: range) -> None:
        for number in numbers:
            await self._target.up.wait()
            shot = self._surface.shot(self._seed, number)
            self._target.sent += 1
            began = time.monotonic()
            try:
                answer = await self._patiently(self._send(shot, number))
            except TimeoutError:
                self._note("silent", began, number, shot, "silent", f"no answer in {LIMIT_S:g} s")
            except Unreadable as error:
                self._note("closed", began, number, shot, "unreadable", str(error))
            except Ended as error:
                await self._ended(error, began, number, shot)
            else:
                self._judge(answer, began, number, shot)
        self._wire.drop()

    async def _patiently(self, sending: Coroutine[None, None, Answer | None]) -> Answer | None:
        """What came of it. Raises TimeoutError after `LIMIT_S` in which the process could have answered."""
        task, began = asyncio.ensure_future(sending), time.monotonic()
        starved_s = self._target.starved_s + _own_delay_s()
        while not (await asyncio.wait({task}, timeout=LIMIT_S))[0]:
            silent_s = time.monotonic() - began
            if silent_s - (self._target.starved_s + _own_delay_s() - starved_s) > LIMIT_S or silent_s > MOST_S:
                task.cancel()
                await asyncio.wait({task})
                self._wire.drop()
                raise TimeoutError
        return task.result()

    async def _send(self, shot: Shot, number: int) -> Answer | None:
        if self._surface.handshake is not None:
            return await self._frame(shot, self._surface.handshake(number))
        if shot.loose:
            return await self._wire.shout(shot.data, _PATIENCE_S, 2 * MOST_S)
        used = self._wire.is_open
        try:
            return await self._wire.exchange(shot.data, 2 * MOST_S, bodiless=shot.bodiless)
        except Ended as error:
            # A kept connection may end while the next request is on its way (RFC 9112, section 9.3.1).
            if not used or error.begun:
                raise
            return await self._wire.exchange(shot.data, 2 * MOST_S, bodiless=shot.bodiless)

    async def _frame(self, shot: Shot, handshake: bytes) -> Answer | None:
        if not self._wire.is_open:
            answer = await self._wire.exchange(handshake, 2 * MOST_S)
            if answer.status != 101:
                return answer
        if not shot.loose:
            return await self._wire.frame(shot.data, 2 * MOST_S)
        try:
            return await self._wire.frame(shot.data, _PATIENCE_S)
        except (TimeoutError, Ended):
            return None

    def _judge(self, answer: Answer | None, began: float, number: int, shot: Shot) -> None:
        if answer is None:
            self._note("closed", began)
            return
        status = answer.status or 200
        if status >= 1000:  # A close frame: 1006 and 1011 are the protocol's 500 (RFC 6455, section 7.4.1).
            status = 500 if status in (1006, 1011) else 400
        asked_to_wait = status == 503 and b'"retry_after_s"' in answer.body
        if status >= 500 and not asked_to_wait and not (shot.loose and status in _ALLOWED):
            self._note("5xx", began, number, shot, "5xx", f"{answer.status} {answer.body[:300]!r}")
        else:
            self._note(f"{status // 100}xx", began)

    async def _ended(self, error: Ended, began: float, number: int, shot: Shot) -> None:
        if shot.loose:
            self._note("closed", began)
        elif self._target.child.is_alive:
            self._note("closed", began, number, shot, "no answer", str(error))
        else:
            self._note("closed", began, number, shot, "end", "the process has ended")
            await asyncio.sleep(1.0)  # Until `watch` has seen it, too.

    def _note(
        self, kind: str, began: float, number: int = 0, shot: Shot | None = None, fault: str = "", answer: str = ""
    ) -> None:
        self._tally.add(self._surface.name, kind, time.monotonic() - began)
        if fault and shot is not None:
            self._tally.faults.append(Fault(fault, self._surface.name, number, shot.told, answer))
            progress(self._tally.faults[-1].told)


def _own_delay_s() -> float:
    """How long this thread has been ready to run and had no processor."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9


def _growth(target: Target) -> Growth:
    looks = target.memory
    if not looks:
        return Growth(target.name, target.sent, *([float("nan")] * 4))
    mib = [(sent, resident / 2**20) for sent, resident in looks]
    early = next((size for sent, size in mib if sent >= target.sent / 20), mib[0][1])
    second = [(sent, size) for sent, size in mib if sent >= target.sent / 2]
    half = second[0][1] if second else mib[-1][1]
    return Growth(target.name, target.sent, early, half, mib[-1][1], _slope(second) * 100_000)


def _slope(points: list[tuple[int, float]]) -> float:
    """Of the least-squares line; nan for fewer than three points."""
    if len(points) < 3:
        return float("nan")
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else float("nan")


def tell(outcome: Outcome) -> None:
    heading("Fuzzing")
    tally = outcome.tally
    note(
        f"{tally.sent:,} requests in {outcome.seconds:.0f} s ({tally.sent / outcome.seconds:.0f} a second), seed "
        f"{outcome.seed}. `closed`: ended without an answer, which is right for what is no request."
    )
    rows = [
        [name, *(f"{answers[kind]:,}" for kind in _CLASSES), f"{1000 * tally.slowest_s[name]:.0f}"]
        for name, answers in sorted(tally.answers.items())
    ]
    table(["surface", *_CLASSES, "longest, ms"], rows)
    table(
        ["process", "requests", "MiB at 5 %", "at 50 %", "at the end", "MiB per 100,000, second half", "restarts"],
        [
            [
                *(one.process, f"{one.sent:,}", f"{one.first:.0f}", f"{one.half:.0f}", f"{one.last:.0f}"),
                *(f"{one.slope:.1f}", str(len(outcome.ends[one.process]))),
            ]
            for one in outcome.growth
        ],
    )
    if outcome.heaps:
        whole = outcome.heaps[-1][0]
        moments = [next(one for one in outcome.heaps if one[0] >= whole * share) for share in (0.05, 0.5, 1.0)]
        told = "; ".join(f"{used / 2**20:.0f} and {kept / 2**20:.0f}" for _, used, kept in moments)
        note(f"MiB of the service's heaps in use, and free but kept, at 5 %, at 50 %, at the end: {told}\n")
    for fault in tally.faults[:_MOST_TOLD]:
        note(f"- {fault.told}")
    for name, ends in outcome.ends.items():
        for end in ends:
            note(f"- {name} ended; its log: {end}")
    traces = ", ".join(f"{name} {count}" for name, count in outcome.traces.items())
    note(
        f"{len(tally.faults)} faults, {sum(map(len, outcome.ends.values()))} processes ended; traces in logs: {traces}."
    )
