"""What a real vLLM counts of its steps' work and drafts: the plugin tells what /metrics adds up to."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from agents.backends.vllm.measures.growth import growth
from agents.backends.vllm.measures.scrape_reading import parse
from agents.backends.vllm.plugin_link import PluginLink
from tests.processes import wait_for
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import DRAFTS, RAW_LOG, ROOT, VllmServer, vllm_arguments

COUNT = 12
WORK = {
    "flops": "estimated_flops_per_gpu",
    "read_bytes": "estimated_read_bytes_per_gpu",
    "write_bytes": "estimated_write_bytes_per_gpu",
}


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
    answers = server.complete_all(prompts(COUNT, seed=5), 48, 4)
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
