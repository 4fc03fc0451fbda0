"""An agent beside a real vLLM without the plugin: what /metrics and traces tell, against vLLM's own raw values."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import EngineConfig
from tests.agents.backends.vllm.conftest import eventually
from tests.agents.backends.vllm.following import Following, followed
from tests.processes import free_port
from tests.vllm.observation import Values, engine_ids, told_by_vllm
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, VllmServer, vllm_arguments

COUNT = 60
PER_REQUEST = ("e2e", "queue", "prefill", "decode")


async def asked(server: VllmServer, seed: int) -> tuple[list[Any], Values]:
    """Requests, and what vLLM's own values of them are."""
    began = time.time()
    answers = await asyncio.to_thread(server.complete_all, prompts(COUNT, seed=seed), 24)
    assert [answer.error for answer in answers if answer.failed] == []
    return answers, await asyncio.to_thread(told_by_vllm, server, engine_ids(answers), began)


def in_buckets(bounds: list[float], values: list[float]) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return counts


def bucket_counts(following: Following, metric: str) -> tuple[list[float], list[int], float]:
    events = [item for item in following.items if item["kind"] == "buckets" and item["metric"] == metric]
    counts = [sum(column) for column in zip(*(event["counts"] for event in events), strict=True)]
    return events[0]["bounds"], counts, sum(event["total"] for event in events)


def test_from_metrics_every_value_is_counted_in_its_bucket(vllm_server: VllmServer) -> None:
    backend = AttachedVllm(vllm_server.url, None, scrape_interval_s=0.5)
    found: dict[str, Any] = {}

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        found["answers"], found["own"] = await asked(vllm_server, seed=11)
        await following.until("requests", COUNT)
        await following.until("e2e", COUNT)

    following = followed(backend, work)
    own: Values = found["own"]
    counted = following.counted()
    assert counted["requests"] == COUNT
    assert counted["prompt_tokens"] == sum(answer.prompt_tokens for answer in found["answers"])
    assert counted["output_tokens"] == sum(answer.output_tokens for answer in found["answers"])
    values = {name: [one[name] for one in own.finished.values()] for name in PER_REQUEST}
    for name, true in {**values, "ttft": own.ttft, "itl": own.itl}.items():
        bounds, counts, total = bucket_counts(following, name)
        assert counts == in_buckets(bounds, true), name
        assert total == pytest.approx(sum(true), rel=1e-6), name


def test_traces_are_exact_and_metrics_do_not_count_them_again(start_vllm: Callable[..., VllmServer]) -> None:
    port = free_port()
    plain = [
        one for one in vllm_arguments() if one not in ("--scheduler-cls", "tailwright_vllm.scheduler.live_scheduler")
    ]
    server = start_vllm(
        arguments=[*plain, "--otlp-traces-endpoint", f"http://127.0.0.1:{port}/v1/traces"],
        environment={"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
        plugin=False,
    )
    backend = AttachedVllm(server.url, None, scrape_interval_s=0.5, otlp_port=port)
    found: dict[str, Any] = {}

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        # The first trace says that traces come; what /metrics told before it stays counted there.
        await asyncio.to_thread(server.complete, prompts(1, seed=1)[0], 4)
        await following.until("e2e", 1)
        assert backend._traces is not None
        traces = backend._traces
        await eventually(lambda: traces.heard_within(60.0))
        # Its three gaps come by /metrics, in a scrape that may be later than its trace.
        await eventually(lambda: sum(item.get("metric") == "itl" for item in following.items) >= 1)
        following.items.clear()
        _, found["own"] = await asked(server, seed=12)
        await following.until("requests", COUNT + 1)
        await following.until("e2e", COUNT + 1)
        assert "exact" in (await backend.health()).degraded

    following = followed(backend, work)
    own: Values = found["own"]
    exact = {item["request_id"]: item for item in following.items if item["kind"] == "traced"}
    assert {f"{one}-0" if one not in own.finished else one for one in exact} == own.finished.keys()
    for request_id, event in exact.items():
        raw = own.finished.get(request_id) or own.finished[f"{request_id}-0"]
        assert {name: event[name] for name in PER_REQUEST} == {name: raw[name] for name in PER_REQUEST}
    assert sorted(item["ttft"] for item in following.items if item["kind"] == "first_token") == own.ttft
    assert {item["metric"] for item in following.items if item["kind"] == "buckets"} == {"itl"}
    bounds, counts, _ = bucket_counts(following, "itl")
    assert counts == in_buckets(bounds, own.itl)
    assert (counted := following.counted())["e2e"] == counted["ttft"] == counted["requests"] == COUNT + 1

    asyncio.run(_reads_the_configuration(server))


async def _reads_the_configuration(server: VllmServer) -> None:
    """Without the plugin's scheduler vLLM's own account of its configuration holds, and nothing can be moved."""
    backend = AttachedVllm(server.url, None)
    started = EngineConfig(
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS, max_num_seqs=MAX_NUM_SEQS, num_speculative_tokens=DRAFTS
    )
    found = await backend.effective()
    assert found.knobs == started.knobs()
    assert all(source.startswith("GET /server_info: ") for source in found.sources.values())
    assert (await backend.apply(started, 4)).revision == 4
    with pytest.raises(KnobOutOfRange, match="max_num_seqs"):
        await backend.apply(started.model_copy(update={"max_num_seqs": 4}), 5)


def test_over_the_going_over_to_the_plugin_every_request_counts_once(vllm_server: VllmServer, tmp_path: Path) -> None:
    folder = tmp_path / "not shared yet"
    backend = AttachedVllm(vllm_server.url, folder, scrape_interval_s=0.5)

    async def work(following: Following) -> None:
        await eventually(lambda: "step" in following.kinds)
        await asked(vllm_server, seed=13)
        await following.until("e2e", COUNT)
        folder.symlink_to(vllm_server.folder)
        await eventually(lambda: backend._statistics.raw)
        await asked(vllm_server, seed=14)
        await following.until("e2e", 2 * COUNT)

    counted = followed(backend, work).counted()
    assert counted["e2e"] == counted["ttft"] == counted["requests"] == 2 * COUNT
    assert counted["missed"] == 0
