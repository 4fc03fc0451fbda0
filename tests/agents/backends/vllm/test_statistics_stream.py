"""One source at a time, gone over by itself: the plugin's raw values, /metrics, traces beside it; nothing twice."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.attached import AttachedVllm
from tests.agents.backends.vllm.conftest import ALL_LIMITS, StandInServer, eventually
from tests.agents.backends.vllm.following import Following, followed
from tests.agents.backends.vllm.measures.spans import export, span
from tests.processes import free_port

pytestmark = pytest.mark.slow

PARTS = ("requests", "output_tokens", "e2e", "ttft", "itl")


def complete(server: StandInServer, count: int) -> Any:
    return asyncio.to_thread(server.complete, count, max_tokens=6)


def test_without_the_plugin_metrics_are_counted(server: StandInServer, caplog: pytest.LogCaptureFixture) -> None:
    server.start(plugin=False)
    caplog.set_level(logging.INFO, logger="agents.backends.vllm.statistics_stream")
    backend = AttachedVllm(server.url, server.folder, scrape_interval_s=0.05)

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await complete(server, 10)
        await following.until("requests", 10)
        await following.until("itl", 50)
        assert "/metrics" in (await backend.health()).degraded
        assert "install tailwright-vllm" in (await backend.health()).degraded

    following = followed(backend, work)
    found = following.counted()
    assert {name: found[name] for name in PARTS} == {
        "requests": 10, "output_tokens": 60, "e2e": 10, "ttft": 10, "itl": 50
    }  # fmt: skip
    assert found["missed"] == 0
    assert following.hellos[0]["model"] == "m"
    assert len([one for one in caplog.records if "/metrics" in one.message]) == 1


def test_a_server_that_comes_back_with_the_plugin_is_counted_raw_and_one_without_it_from_metrics(
    server: StandInServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="agents.backends.vllm.statistics_stream")
    server.start(plugin=False)
    backend = AttachedVllm(server.url, server.folder, scrape_interval_s=0.05)

    async def until_told(following: Following, requests: int) -> None:
        """A scrape may fall among what the server counts of one request: killed then, it takes the rest along."""
        for name, count in (("requests", 1), ("e2e", 1), ("ttft", 1), ("output_tokens", 6)):
            await following.until(name, count * requests)

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await complete(server, 4)
        await until_told(following, 4)
        server.kill()
        await asyncio.to_thread(server.start, *ALL_LIMITS[:1])
        await complete(server, 5)
        await until_told(following, 9)
        assert (await backend.health()).degraded == ""
        server.kill()
        await asyncio.to_thread(server.start, plugin=False)
        await complete(server, 6)
        await until_told(following, 15)
        assert "/metrics" in (await backend.health()).degraded

    following = followed(backend, work)
    found = following.counted()
    assert (found["requests"], found["e2e"], found["ttft"], found["output_tokens"]) == (15, 15, 15, 90)
    assert found["missed"] == 0
    boots = [one["boot"] for one in following.hellos]
    assert len(set(boots)) >= 3
    sources = [one["process"].partition(":")[0] for one in following.hellos]
    assert set(sources) == {"plugin", "started"}
    assert {one["version"] for one in following.hellos if one["process"].startswith("started:")} == {"vllm 0.32.0"}
    said = [one.message for one in caplog.records]
    assert ["/metrics" in one for one in said] == [True, False, True]


def test_the_plugins_stream_appearing_in_a_running_server_is_taken_up_without_counting_twice(
    server: StandInServer, tmp_path: Path
) -> None:
    server.start(*ALL_LIMITS[:1])
    folder = tmp_path / "not shared yet"
    backend = AttachedVllm(server.url, folder, scrape_interval_s=0.05)

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await complete(server, 5)
        await following.until("e2e", 5)
        folder.symlink_to(server.folder)
        await eventually(lambda: backend._statistics.raw)
        await complete(server, 7)
        await following.until("e2e", 12)
        await following.until("ttft", 12)

    following = followed(backend, work)
    found = following.counted()
    assert {name: found[name] for name in ("requests", "output_tokens", "e2e", "ttft", "missed")} == {
        "requests": 12, "output_tokens": 72, "e2e": 12, "ttft": 12, "missed": 0
    }  # fmt: skip
    assert "+" in following.hellos[-1]["boot"]
    resumed = AttachedVllm(server.url, server.folder, scrape_interval_s=0.05)
    assert following.accumulator.read_to is not None

    async def again(following: Following) -> None:
        await complete(server, 3)
        await following.until("e2e", 3)

    later = followed(resumed, again, following.accumulator.read_to)
    assert later.counted()["requests"] == 3 and later.counted()["missed"] == 0
    assert later.hellos[0]["boot"] == following.hellos[-1]["boot"]


def test_another_agent_process_counts_what_happened_while_none_ran(server: StandInServer, tmp_path: Path) -> None:
    server.start(plugin=False)

    async def first(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await complete(server, 2)
        await following.until("e2e", 2)

    def made() -> AttachedVllm:
        return AttachedVllm(server.url, None, scrape_interval_s=0.05, state_dir=tmp_path / "state")

    before = followed(made(), first)
    server.complete(4)

    async def second(following: Following) -> None:
        await following.until("e2e", 4)

    after = followed(made(), second, before.accumulator.read_to)
    assert before.counted()["requests"] == 2
    assert after.counted()["requests"] == 4 and after.counted()["missed"] == 0


def test_traces_make_latencies_exact_beside_metrics_and_are_passed_over_beside_the_plugin(
    server: StandInServer,
) -> None:
    server.start(plugin=False)
    port = free_port()
    backend = AttachedVllm(server.url, server.folder, scrape_interval_s=0.05, otlp_port=port)

    async def send(*spans: Any) -> None:
        headers = {"Content-Type": "application/x-protobuf"}
        body = export(*spans).SerializeToString()
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"http://127.0.0.1:{port}/v1/traces", content=body, headers=headers)
        assert answer.status_code == 200

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await send(span(end=time.time() - 3600))  # Long counted, and says that traces come.
        now = time.time() + 0.5  # Just ahead of the next reading.
        await send(*(span(end=now, id=f"r{number}") for number in range(3)))
        await following.until("e2e", 3)
        assert "exact" in (await backend.health()).degraded
        server.kill()
        await asyncio.to_thread(server.start, *ALL_LIMITS[:1])
        await complete(server, 2)
        await following.until("e2e", 5)
        await send(span(end=time.time() + 1, id="beside the plugin"))
        await complete(server, 1)
        await following.until("e2e", 6)

    following = followed(backend, work)
    assert following.counted()["e2e"] == 6
    assert following.kinds.count("traced") == 3


def test_an_address_that_is_no_vllm_is_said(server: StandInServer) -> None:
    server.start(plugin=False)

    async def run() -> None:
        backend = AttachedVllm(f"{server.url}/v1", None)
        with pytest.raises(EngineUnreachable, match="404"):
            await anext(aiter(backend.events(None)))
        assert "404" in (await backend.health()).degraded or not (await backend.health()).healthy

    asyncio.run(run())
