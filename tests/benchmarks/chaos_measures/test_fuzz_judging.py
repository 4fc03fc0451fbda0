"""What a fuzzed server does is told apart: right answers, faults of each kind, and time without a processor."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.chaos_measures import fuzz
from benchmarks.chaos_measures.fuzz import Tally
from benchmarks.chaos_measures.fuzz_shots import Shot, Surface
from benchmarks.chaos_measures.raw_exchange import Address

ANSWERS = {
    b"/ok": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"/bad": b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nwhy?",
    b"/version": b"HTTP/1.1 505 No\r\nContent-Length: 0\r\n\r\n",
    b"/mail": b"220 mail\r\n\r\n",
    b"/none": None,
    b"/silent": b"",
}


@dataclass
class Alive:
    is_alive: bool = True


@dataclass
class Target:
    up: asyncio.Event
    child: Alive = field(default_factory=Alive)
    sent: int = 0
    starved_s: float = 0.0


@dataclass
class Targets:
    addresses: dict[str, Address]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            answer = ANSWERS[(await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]]
            if answer is None:
                break
            writer.write(answer)
    except asyncio.IncompleteReadError:
        pass
    finally:
        writer.close()


def judged(path: str, *, loose: bool = False, starved_s: float = 0.0) -> tuple[dict[str, int], list[str]]:
    """Answers by class and faults, of two requests to `path`."""
    shot = Shot(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), path, loose=loose)

    async def run() -> tuple[dict[str, int], list[str]]:
        async with await asyncio.start_server(_serve, "127.0.0.1", 0) as server:
            tally, target = Tally(), Target(asyncio.Event())
            target.up.set()
            if starved_s:
                asyncio.get_running_loop().call_later(0.02, setattr, target, "starved_s", starved_s)
            surface = Surface("s", 1.0, "service", "here", lambda *_: shot)
            targets: Any = Targets({"here": Address(server.sockets[0].getsockname()[1])})
            given: Any = target
            await fuzz._Worker(surface, given, targets, tally, 1).work(range(2))
            return dict(tally.answers["s"]), [fault.kind for fault in tally.faults]

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LIMIT_S", 0.1)
    monkeypatch.setattr(fuzz, "MOST_S", 0.5)


@pytest.mark.parametrize(
    ("path", "loose", "answers", "faults"),
    [
        ("/ok", False, {"2xx": 2}, []),
        ("/bad", False, {"5xx": 2}, ["5xx", "5xx"]),
        ("/bad", True, {"5xx": 2}, ["5xx", "5xx"]),
        ("/version", False, {"5xx": 2}, ["5xx", "5xx"]),
        ("/version", True, {"5xx": 2}, []),
        ("/mail", False, {"closed": 2}, ["unreadable", "unreadable"]),
        ("/none", False, {"closed": 2}, ["no answer", "no answer"]),
        ("/none", True, {"closed": 2}, []),
        ("/silent", False, {"silent": 2}, ["silent", "silent"]),
    ],
)
def test_faults_are_told_apart(path: str, loose: bool, answers: dict[str, int], faults: list[str]) -> None:
    assert judged(path, loose=loose) == (answers, faults)


def test_time_without_a_processor_is_no_silence_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    plain = asyncio.wait

    async def counted(*given: Any, **options: Any) -> Any:
        waited.append(options.get("timeout") or 0.0)
        return await plain(*given, **options)

    monkeypatch.setattr(asyncio, "wait", counted)
    judged("/silent")
    few = len(waited)
    waited.clear()
    assert judged("/silent", starved_s=1000.0)[1] == ["silent", "silent"]
    assert len(waited) > few
