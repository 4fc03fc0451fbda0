"""Numbered events from readings: over failed readings, restarts of the server, and of the agent."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.backends.base import Position
from agents.backends.vllm.measures.merge import HELD_S
from agents.backends.vllm.measures.scrape_memory import FILE_NAME, KEPT, ScrapeMemory
from agents.backends.vllm.measures.scrape_reading import Reading
from agents.backends.vllm.measures.scraper import LONGEST_GAP_S, Scraper
from agents.backends.vllm.measures.traced_request import TracedRequest
from tests.agents.backends.vllm.measures.test_growth import Server
from tests.agents.backends.vllm.measures.test_scrape_reading import recorded


def begun(now: Reading, memory: ScrapeMemory | None = None) -> tuple[Scraper, Any]:
    scraper = Scraper(memory or ScrapeMemory(None))
    hello = scraper.begin(None, now, None)
    return scraper, hello


def requests_in(items: list[Any]) -> int:
    return sum(sum(item["requests"].values()) for item in items if item["kind"] == "counts")


def e2e_in(items: list[Any]) -> int:
    return sum(sum(item["counts"]) for item in items if item["kind"] == "buckets" and item["metric"] == "e2e")


def test_the_first_reading_tells_the_present_and_the_next_what_happened_since() -> None:
    scraper, hello = begun(recorded("0.32-first", 100.0))
    first = scraper.read(recorded("0.32-first", 100.0), 4, tracing=False)
    second = scraper.read(recorded("0.32-second", 105.0), 5, tracing=False)
    assert hello["kind"] == "hello" and hello["model"] == "m" and hello["oldest"] == 1
    assert [item["kind"] for item in first] == ["step"]
    assert {item["kind"] for item in second} == {"buckets", "counts", "step"}
    assert [item["seq"] for item in [*first, *second]] == list(range(1, len(first) + len(second) + 1))
    assert {item["revision"] for item in second} == {5} and {item["time"] for item in second} == {105.0}
    assert requests_in(second) == e2e_in(second) == 30


def test_a_server_started_anew_is_another_boot_and_counts_from_its_start() -> None:
    server = Server(started=0.0)
    scraper, hello = begun(server.read(100.0))
    scraper.read(server.read(100.0), 0, tracing=False)
    server.serve(0)
    before = scraper.read(server.read(105.0), 0, tracing=False)
    server = Server(started=107.0)
    server.serve(1)
    server.serve(2)
    after = scraper.read(server.read(110.0), 0, tracing=False)
    assert requests_in(before) == 1
    assert after[0]["kind"] == "hello" and after[0]["boot"] != hello["boot"] and after[0]["oldest"] == 1
    assert (hello["process"], after[0]["process"]) == ("started:0", "started:107")
    assert after[1]["seq"] == 1 and requests_in(after) == e2e_in(after) == 2


def test_a_broken_stream_is_taken_up_where_it_broke() -> None:
    server = Server(started=0.0)
    scraper, hello = begun(server.read(100.0))
    scraper.read(server.read(100.0), 0, tracing=False)
    server.serve(0)
    place = scraper.position
    again = scraper.begin(place, server.read(140.0), None)
    told = scraper.read(server.read(140.0), 0, tracing=False)
    assert again["boot"] == hello["boot"]
    assert requests_in(told) == 1 and told[0]["seq"] == place.seq + 1


def test_another_agent_process_goes_on_at_the_position_that_was_stored(tmp_path: Path) -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0), ScrapeMemory(tmp_path))
    scraper.read(server.read(100.0), 0, tracing=False)
    server.serve(0)
    scraper.read(server.read(105.0), 0, tracing=False)
    stored = scraper.position
    server.serve(1)
    unstored = scraper.read(server.read(110.0), 0, tracing=False)  # Counted, and lost with the process.
    server.serve(2)
    later = Scraper(ScrapeMemory(tmp_path))
    hello = later.begin(stored, server.read(120.0), None)
    told = later.read(server.read(120.0), 0, tracing=False)
    assert hello["boot"] == stored.boot and hello["oldest"] == stored.seq + 1
    assert requests_in(unstored) == 1 and requests_in(told) == e2e_in(told) == 2


LIFE = st.lists(st.sampled_from(["serve", "read", "read", "store"]), max_size=8)


@given(st.lists(LIFE, min_size=1, max_size=5))
def test_whatever_dies_when_each_request_is_stored_once(lives: list[list[str]]) -> None:
    """Each life reads and stores as it likes and is then killed: what it told and did not store was for nothing."""
    server, now, served, counted = Server(started=0.0), 100.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        position: Position | None = None
        for deeds in [["read", "serve", "read", "store"], *lives, ["read", "store"]]:
            now += 1.0
            scraper = Scraper(ScrapeMemory(Path(folder)))
            scraper.begin(position, server.read(now), None)
            told = 0
            for deed in deeds:
                now += 1.0
                if deed == "serve":
                    server.serve(0)
                    served += 1
                elif deed == "read":
                    told += requests_in(scraper.read(server.read(now), 0, tracing=False))
                else:
                    position, counted, told = scraper.position, counted + told, 0
        assert counted == served


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"series": [], "points": [{"boot": 3}]}'])
def test_a_lost_memory_loses_and_never_doubles(tmp_path: Path, content: bytes | None) -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0), ScrapeMemory(tmp_path))
    server.serve(0)
    scraper.read(server.read(105.0), 0, tracing=False)
    (tmp_path / FILE_NAME).unlink() if content is None else (tmp_path / FILE_NAME).write_bytes(content)
    server.serve(0)
    later = Scraper(ScrapeMemory(tmp_path))
    later.begin(scraper.position, server.read(110.0), None)
    assert requests_in(later.read(server.read(110.0), 0, tracing=False)) == 0
    server.serve(0)
    assert requests_in(later.read(server.read(115.0), 0, tracing=False)) == 1


def test_a_position_older_than_the_memory_loses_and_never_doubles(tmp_path: Path) -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0), ScrapeMemory(tmp_path))
    scraper.read(server.read(100.0), 0, tracing=False)
    old = scraper.position
    for place in range(KEPT + 5):
        server.serve(0)
        scraper.read(server.read(101.0 + place), 0, tracing=False)
    later = Scraper(ScrapeMemory(tmp_path))
    later.begin(Position(old.boot, old.seq), server.read(140.0), None)
    assert requests_in(later.read(server.read(140.0), 0, tracing=False)) == KEPT - 1


def test_a_long_pause_is_not_shown_as_the_present() -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0))
    scraper.read(server.read(100.0), 0, tracing=False)
    server.serve(0)
    late = server.read(100.0 + LONGEST_GAP_S + 1)
    scraper.begin(scraper.position, late, None)
    assert requests_in(scraper.read(late, 0, tracing=False)) == 0


@pytest.mark.parametrize(("counted_until", "expected"), [(50.0, 3), (80.6, 3), (90.0, 0), (None, 0)])
def test_after_raw_statistics_only_a_younger_server_counts_from_its_start(
    counted_until: float | None, expected: int
) -> None:
    server = Server(started=80.0)
    for _ in range(3):
        server.serve(0)
    scraper = Scraper(ScrapeMemory(None))
    scraper.begin(Position("raw", 77), server.read(100.0), counted_until)
    assert requests_in(scraper.read(server.read(100.0), 0, tracing=False)) == expected


def traced(number: int, end: float, e2e: float = 0.2) -> TracedRequest:
    return TracedRequest(f"r{number}", end - e2e, end, e2e, 0.1, 0.01, 0.05, 0.1, 40, 5)


def test_a_traced_request_is_exact_and_not_in_buckets_as_well() -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0))
    scraper.read(server.read(100.0), 0, tracing=True)
    for _ in range(3):
        server.serve(0)
    first = scraper.read(server.read(105.0), 0, tracing=True)
    exact = scraper.traced([traced(1, 102.0), traced(2, 103.0)], 6)
    later = scraper.read(server.read(105.0 + HELD_S), 0, tracing=True)
    assert e2e_in(first) == 0 and requests_in(first) == 3
    assert [item["kind"] for item in exact if item["kind"] != "first_token"] == ["traced"] * 2
    assert e2e_in(later) == 1  # The third was never traced.
    assert requests_in(later) == 0


def test_a_trace_that_comes_after_its_bucket_was_counted_is_passed_over() -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0))
    scraper.read(server.read(100.0), 0, tracing=False)
    server.serve(0)
    assert e2e_in(scraper.read(server.read(105.0), 0, tracing=False)) == 1
    assert not [item for item in scraper.traced([traced(1, 102.0)], 0) if item["kind"] == "traced"]


def test_what_waits_for_its_trace_outlives_the_agent(tmp_path: Path) -> None:
    server = Server(started=0.0)
    scraper, _ = begun(server.read(100.0), ScrapeMemory(tmp_path))
    scraper.read(server.read(100.0), 0, tracing=True)
    server.serve(0)
    server.serve(0)
    scraper.read(server.read(105.0), 0, tracing=True)
    scraper.traced([traced(1, 103.0)], 0)
    later = Scraper(ScrapeMemory(tmp_path))
    now = server.read(110.0)
    later.begin(scraper.position, now, None)
    assert e2e_in(later.read(now, 0, tracing=True)) == 0
    assert e2e_in(later.read(server.read(106.0 + HELD_S), 0, tracing=True)) == 1
