"""What the plugin tells of a real vLLM, against vLLM's own values and against what the clients got."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agents.backends.vllm.measures.growth import growth
from agents.backends.vllm.measures.scrape_reading import parse
from agents.backends.vllm.plugin_link import PluginLink
from tests.processes import wait_for
from tests.vllm.observation import engine_ids, told_by_plugin, told_by_vllm
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import DRAFTS, RAW_LOG, ROOT, VllmServer, vllm_arguments

PARTS = ("receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted")
WORK = {
    "flops": "estimated_flops_per_gpu",
    "read_bytes": "estimated_read_bytes_per_gpu",
    "write_bytes": "estimated_write_bytes_per_gpu",
}


def test_every_request_is_told_with_the_values_that_vllm_itself_has(vllm_server: VllmServer) -> None:
    drawn = random.Random(5)
    began = time.time()
    answers = vllm_server.complete_all(prompts(40, seed=5), [drawn.randrange(1, 49) for _ in range(40)])
    assert [answer.error for answer in answers if answer.failed] == []
    ids = engine_ids(answers)
    told, own = told_by_plugin(vllm_server, ids, began), told_by_vllm(vllm_server, ids, began)

    assert told.finished.keys() == own.finished.keys() == ids
    assert told.ttft == own.ttft and len(told.ttft) == len(answers)
    assert told.itl == own.itl and told.itl
    for answer in answers:
        event, raw = told.finished[f"{answer.request_id}-0"], own.finished[f"{answer.request_id}-0"]
        assert (event["prompt_tokens"], event["output_tokens"]) == (answer.prompt_tokens, answer.output_tokens)
        assert event["cached_tokens"] == raw["cached_tokens"]
        assert event["finish_reason"] == "length"
        for name in ("e2e", "queue", "prefill", "decode"):
            assert event[name] == raw[name], name
        # The server's part of what its client waited for; two clocks, so a few milliseconds are nobody's.
        assert event["ttft"] <= event["e2e"] <= answer.whole_s + 0.005


def test_the_parts_of_every_request_add_up(vllm_server: VllmServer) -> None:
    began = time.time()
    answers = vllm_server.complete_all(prompts(24, seed=6), 24)
    told = told_by_plugin(vllm_server, engine_ids(answers), began)
    for event in told.finished.values():
        assert sum(event[part] for part in PARTS) == pytest.approx(event["e2e"], abs=1e-6)
        assert abs(event["unaccounted"]) < 0.02 * event["e2e"]
        assert all(event[part] >= 0 for part in PARTS[:-1])


async def _told(server: VllmServer) -> Counter[str]:
    """All that the plugin has told since the server began, until it has nothing more."""
    found = Counter[str]()
    stream = PluginLink(server.folder).events(None)
    try:
        async with asyncio.timeout(2.0):
            async for event in stream:
                if event["kind"] == "step":
                    found.update({name: int(event.get(name, 0)) for name in WORK})  # type: ignore[call-overload]
                    for name in ("drafted_per_position", "accepted_per_position"):
                        places: list[int] = event.get(name, [])  # type: ignore[assignment]
                        found.update({f"{name} {place}": tokens for place, tokens in enumerate(places)})
    except TimeoutError:
        pass
    await stream.aclose()
    return found


def _metrics(server: VllmServer) -> tuple[dict[str, int], dict[str, float]]:
    """As an agent without the plugin counts them; and accepted tokens by the label `position`."""
    text = httpx.get(f"{server.url}/metrics").text
    accepted = {}
    for line in text.splitlines():
        if line.startswith("vllm:spec_decode_num_accepted_tokens_per_pos_total{"):
            labels, _, value = line.rpartition(" ")
            accepted[labels.partition('position="')[2].partition('"')[0]] = float(value)
    return growth(None, parse(text, time.time())).counts, accepted


def test_flops_bytes_and_drafts_by_place_are_those_of_vllms_own_counters(start_vllm: Callable[..., VllmServer]) -> None:
    plugin = {"PYTHONPATH": f"{ROOT / 'agents/vllm_plugin'}:{RAW_LOG}"}
    server = start_vllm(arguments=[*vllm_arguments(), "--enable-mfu-metrics"], environment=plugin)
    answers = server.complete_all(prompts(12, seed=5), 48, 4)
    assert [answer.error for answer in answers if answer.failed] == []
    told: Counter[str] = Counter()
    counted: tuple[dict[str, Any], dict[str, float]] = ({}, {})

    def all_told() -> bool:
        nonlocal told, counted
        told, counted = asyncio.run(_told(server)), _metrics(server)
        return told["flops"] == counted[0].get("estimated_flops_per_gpu", 0)

    wait_for("the plugin has told what /metrics counts", all_told, 60.0)
    assert {theirs: told[ours] for ours, theirs in WORK.items()} == {name: counted[0][name] for name in WORK.values()}
    assert told["flops"] > 1e9 and told["read_bytes"] > told["write_bytes"] > 0
    accepted = {str(place): float(told[f"accepted_per_position {place}"]) for place in range(DRAFTS)}
    assert accepted == counted[1] and accepted["0"] > 0
    drafted = [told[f"drafted_per_position {place}"] for place in range(DRAFTS)]
    assert sum(drafted) == counted[0]["draft_tokens"] and drafted == sorted(drafted, reverse=True)
