"""Several API server processes of one vLLM: the agent sees the requests of all, each once."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tailwright_vllm import surprises
from tailwright_vllm.feed import Feed
from tailwright_vllm.installation import Installation
from tailwright_vllm.records import BoundSteps, Finished, FirstToken, Gaps, Iteration
from tailwright_vllm.relay import Inlet, Outlet, decode, encode, relay_path
from tailwright_vllm.ring import Ring

from agents.backends.vllm.plugin_link import PluginLink

SECONDS, COUNTS = st.floats(0, 1e9), st.integers(0, 10**9)
LENGTHS = st.none() | COUNTS
ITERATIONS = st.builds(
    Iteration,
    *(SECONDS, COUNTS, COUNTS, SECONDS, COUNTS, COUNTS, COUNTS, st.lists(COUNTS, max_size=3), COUNTS, COUNTS, COUNTS),
    st.lists(st.builds(FirstToken, SECONDS, LENGTHS, COUNTS), max_size=2),
    st.lists(st.builds(Gaps, st.lists(SECONDS, max_size=3), LENGTHS, COUNTS), max_size=2),
    st.lists(
        st.builds(
            Finished,
            *(st.text(max_size=5), st.just("stop"), SECONDS, st.none() | SECONDS, st.none() | SECONDS),
            *(SECONDS, SECONDS, SECONDS, st.none() | SECONDS, COUNTS, COUNTS, COUNTS),
        ),
        max_size=2,
    ),
    st.none() | st.tuples(COUNTS, COUNTS, COUNTS),
    st.none() | st.lists(COUNTS, max_size=3),
)


def _iteration(request: str) -> Iteration:
    ended = Finished(request, "stop", 1.0, 0.4, 0.1, 0.1, 0.2, 0.5, 0.05, 10, 0, 5)
    return Iteration(1000.0, 1, 0, 0.5, 20, 0, 0, [], 0, 10, 0, [], [], [ended])


def _until(what: Callable[[], Any]) -> None:
    """Waits for another thread; the time limit is there for a failing test alone."""
    for _ in range(6000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


@settings(derandomize=True)
@given(ITERATIONS)
def test_a_record_arrives_as_it_was_sent(iteration: Iteration) -> None:
    assert decode(encode(iteration)) == iteration


def test_counted_steps_arrive_as_they_were_sent() -> None:
    steps = BoundSteps(1000.0, {"chunk": 3})
    assert decode(encode(steps)) == steps


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Feed]]:
    """Three server processes' feeds; the first serves."""
    monkeypatch.setattr(surprises.surprises, "counts", {})
    made = [Feed(tmp_path, "m", Installation(tmp_path, None, api_servers=3)) for _ in range(3)]
    for one in made:
        one.start()
    yield made
    for one in made:
        one.close()
        one._thread.join(60.0)


async def _finished(folder: Path, count: int) -> list[str]:
    got: list[str] = []
    async with asyncio.timeout(60):
        async for event in PluginLink(folder).events(None):
            if event["kind"] == "finished":
                got.append(event["request_id"])
            if len(got) == count:
                break
    return got


def test_the_agent_gets_the_requests_of_all_processes_each_once(feeds: list[Feed], tmp_path: Path) -> None:
    for number in range(5):
        for place, one in enumerate(feeds):
            record = _iteration(f"{place}-{number}")
            one.ring.append(record, record.events, record.size)
    got = asyncio.run(_finished(tmp_path, 15))
    assert sorted(got) == sorted(f"{place}-{number}" for place in range(3) for number in range(5))
    assert [one.serving for one in feeds] == [True, False, False]
    assert surprises.surprises.counts == {}


def test_another_takes_over_and_tells_only_what_was_not_told(feeds: list[Feed], tmp_path: Path) -> None:
    first, *others = feeds
    for one in others:
        record = _iteration("old")
        one.ring.append(record, record.events, record.size)
    _until(lambda: first.ring.newest == 4)
    first.close()
    first._thread.join(60.0)
    for place, one in enumerate(others):
        record = _iteration(f"new-{place}")
        one.ring.append(record, record.events, record.size)
    _until(lambda: any(one.serving for one in others))
    assert sorted(asyncio.run(_finished(tmp_path, 2))) == ["new-0", "new-1"]


def test_a_second_vllm_in_the_same_folder_is_told_and_kept_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feeds = [Feed(tmp_path, name, Installation(tmp_path, None)) for name in ("mine", "other")]
    for one in feeds:
        one.start()
    record = _iteration("other")
    feeds[1].ring.append(record, record.events, record.size)
    _until(lambda: any("another vLLM already serves" in line for line in caplog.messages))
    assert feeds[0].ring.newest == 0
    for one in feeds:
        one.close()
        one._thread.join(60.0)


def test_what_is_no_record_is_counted_and_the_next_sender_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setattr(surprises.surprises, "counts", {})
    ring, own = Ring(), Ring()
    inlet = Inlet(tmp_path, ring)
    for nonsense in (b"not json\n", b"[1]\n", b'{"a": 1}\n'):
        with socket.socket(socket.AF_UNIX) as sender:
            sender.connect(str(relay_path(tmp_path)))
            sender.sendall(nonsense)
    _until(lambda: surprises.surprises.counts.get("relay") == 3)
    own.append(_iteration("a"), 2)
    assert Outlet(tmp_path, own).send()
    _until(lambda: ring.newest == 2)
    inlet.close()
    assert not inlet.is_there() and not Outlet(tmp_path, own).send()
