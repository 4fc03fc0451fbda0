"""The feed and the agent's end of it, over a real socket: nothing lost, resumed where it broke, never waited for."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tailwright_vllm import feed as feed_module
from tailwright_vllm.feed import SETTLE_S, Feed
from tailwright_vllm.installation import Installation
from tailwright_vllm.records import Finished, FirstToken, Gaps, Iteration
from tailwright_vllm.ring import Ring
from tailwright_vllm.step_counts import StepCounts

from agents.backends.base import EngineUnreachable, Position
from agents.backends.vllm.plugin_link import PluginLink
from tests.conftest import wait_for

ENDED = Finished("r1", "stop", 1.0, 0.4, 0.1, 0.1, 0.2, 0.5, 0.05, 10, 0, 5)


def _iteration(time: float = 1000.0) -> Iteration:
    first, gaps = [FirstToken(0.4, 10, 0)], [Gaps([0.1, 0.2], 10, 0)]
    return Iteration(time, 3, 1, 0.5, 20, 8, 6, [3, 2, 1, 0], 0, 10, 0, first, gaps, [ENDED])


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    made = Feed(tmp_path, "m")
    made.start()
    yield made
    made.close()


async def _read(folder: Path, count: int, position: Position | None = None) -> list[Any]:
    """The hello and so many events."""
    got: list[Any] = []
    async with asyncio.timeout(20):
        async for event in PluginLink(folder).events(position):
            got.append(event)
            if len(got) > count:
                return got
    return got


def test_events_arrive_numbered_and_whole(feed: Feed, tmp_path: Path) -> None:
    for _ in range(3):
        feed.ring.append(_iteration(), _iteration().events)
    hello, *events = asyncio.run(_read(tmp_path, 12))
    assert hello["kind"] == "hello" and hello["model"] == "m" and hello["oldest"] == 1
    assert hello["process"] == f"plugin:{hello['boot']}" and hello["version"].startswith("vllm ")
    assert [event["seq"] for event in events] == list(range(1, 13))
    assert [event["kind"] for event in events[:4]] == ["step", "first_token", "gaps", "finished"]
    ended = events[3]
    parts = ("receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted")
    assert sum(ended[name] for name in parts) == pytest.approx(ended["e2e"])
    assert ended["tpot"] == pytest.approx(0.6 / 4)


def test_a_reader_resumes_after_its_position(feed: Feed, tmp_path: Path) -> None:
    for _ in range(2):
        feed.ring.append(_iteration(), _iteration().events)
    hello = asyncio.run(_read(tmp_path, 8))[0]
    events = asyncio.run(_read(tmp_path, 3, Position(hello["boot"], 5)))[1:]
    assert [event["seq"] for event in events] == [6, 7, 8]
    again = asyncio.run(_read(tmp_path, 8, Position("another process", 5)))[1:]
    assert [event["seq"] for event in again] == list(range(1, 9))


def test_a_new_reader_takes_the_place_of_an_idle_one(feed: Feed, tmp_path: Path) -> None:
    async def both() -> list[Any]:
        reader, writer = await asyncio.open_unix_connection(feed.path)
        writer.write(b"{}\n")
        await reader.readline()  # The first reader has its hello and stays, silent.
        feed.ring.append(_iteration(), _iteration().events)
        got = await _read(tmp_path, 4)
        writer.close()
        return got

    assert [event["seq"] for event in asyncio.run(both())[1:]] == [1, 2, 3, 4]


def test_a_reader_that_talks_nonsense_is_dropped_and_the_next_is_served(feed: Feed, tmp_path: Path) -> None:
    async def nonsense() -> bytes:
        reader, writer = await asyncio.open_unix_connection(feed.path)
        writer.write(b"\x00\xff not json\n")
        content = await reader.read()
        writer.close()
        return content

    assert asyncio.run(nonsense()) == b""
    feed.ring.append(_iteration(), _iteration().events)
    assert len(asyncio.run(_read(tmp_path, 4))) == 5


def test_events_carry_the_revision_in_force(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "effective.json").write_text(json.dumps({"revision": 9, "knobs": {}}))
    feed.ring.append(_iteration(), _iteration().events)
    assert {event["revision"] for event in asyncio.run(_read(tmp_path, 4))[1:]} == {9}


def test_counted_steps_come_between_the_iterations(feed: Feed, tmp_path: Path) -> None:
    counts = StepCounts(tmp_path)
    counts.count("chunk")
    counts.count("no_work")
    counts.write()
    event = asyncio.run(_read(tmp_path, 1))[1]
    assert event.pop("time") == pytest.approx(time.time(), abs=60)
    assert event == {
        "kind": "counts", "seq": 1, "revision": 0, "counts": {}, "requests": {},
        "step_limits": {"chunk": 1, "no_work": 1},
    }  # fmt: skip
    feed.ring.append(_iteration(), _iteration().events)
    assert [event["kind"] for event in asyncio.run(_read(tmp_path, 5))[1:3]] == ["counts", "step"]


def test_where_another_process_serves_that_one_tells_the_steps(feed: Feed, tmp_path: Path) -> None:
    wait_for("it serves", lambda: feed.serving)
    other = Feed(tmp_path, "m")
    other.start()
    try:
        counts = StepCounts(tmp_path)
        counts.count("chunk")
        counts.write()
        wait_for("the serving one has them", lambda: feed.ring.newest == 1)
        assert other.ring.newest == 0
    finally:
        other.close()


def test_a_missing_socket_is_told_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable, match="plugin"):
        asyncio.run(_read(tmp_path, 1))


def test_each_event_has_the_revision_of_its_own_time(feed: Feed, tmp_path: Path) -> None:
    history = [[900.0, 1], [1000.0, 2], [1100.0, 3]]
    (tmp_path / "effective.json").write_text(json.dumps({"revision": 3, "knobs": {}, "history": history}))
    for at in (950.0, 1000.0, 1050.0, 1200.0):
        feed.ring.append(_iteration(at), 4)
    revisions = [event["revision"] for event in asyncio.run(_read(tmp_path, 16))[1:]]
    assert revisions == [1] * 4 + [2] * 8 + [3] * 4


def test_what_falls_out_unread_is_counted_to_the_reader(feed: Feed, tmp_path: Path) -> None:
    feed.ring = Ring(capacity=2)
    for _ in range(5):
        feed.ring.append(_iteration(), 4)
    hello, first = asyncio.run(_read(tmp_path, 1))
    assert (hello["oldest"], hello["dropped"], first["seq"]) == (13, 12, 13)
    asyncio.run(_read(tmp_path, 8))
    for _ in range(3):
        feed.ring.append(_iteration(), 4)
    hello, first, second = asyncio.run(_read(tmp_path, 2, Position(hello["boot"], 20)))
    assert (hello["dropped"], first["seq"], first["dropped"]) == (16, 25, 4)
    assert "dropped" not in second


def test_events_are_held_until_the_engine_has_told_its_revision(feed: Feed, tmp_path: Path) -> None:
    now = time.time()
    feed.ring.append(_iteration(now), 4)
    assert feed._due(0) == [] or time.time() - now >= SETTLE_S
    assert len(asyncio.run(_read(tmp_path, 4))) == 5  # They come when they are old enough.
    feed.ring.append(_iteration(now + 3600.0), 4)  # The clock was set back: never held for that.
    assert len(feed._due(4)) == 1


def test_a_reader_killed_in_the_middle_of_its_line_is_forgotten(feed: Feed, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(feed.path))
        client.sendall(b'{"boot": "')
    feed.ring.append(_iteration(), 4)
    assert len(asyncio.run(_read(tmp_path, 4))) == 5


def test_a_reader_that_never_reads_is_dropped_and_the_next_is_served(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_SEND_TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.connect(str(feed.path))
        stuck.sendall(b"{}\n")
        for _ in range(6000):
            feed.ring.append(_iteration(), 4)  # More than any socket buffer holds.
        got = asyncio.run(_read(tmp_path, 4))
    assert [event["seq"] for event in got[1:]] == [1, 2, 3, 4]


def test_a_socket_removed_while_a_reader_follows_is_made_again(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_LOOK_S", 0.01)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(feed.path))
        client.sendall(b"{}\n")
        assert b"hello" in client.recv(4096)
        feed.path.unlink()
        while client.recv(4096):  # The feed ends this stream, because it has left the old socket.
            pass
    feed.ring.append(_iteration(), 4)
    assert len(asyncio.run(_read(tmp_path, 4))) == 5


def test_an_ended_feed_says_why_and_leaves_no_socket(tmp_path: Path) -> None:
    made = Feed(tmp_path, "m", Installation(tmp_path, None))
    made.start()
    made.start()  # Only once.
    assert made.serving and json.loads((tmp_path / "plugin.json").read_bytes())["raw_statistics"]["on"] is True
    made.end("the weather")
    made._thread.join(60.0)
    told = json.loads((tmp_path / "plugin.json").read_bytes())["raw_statistics"]
    assert (told["on"], told["why"]) == (False, "the weather") and not made.path.exists()
