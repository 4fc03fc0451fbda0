"""Hundreds of requests of every kind, knobs changing under them: nothing leaks, nothing hangs, each gets its due."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI
from httpx_sse import EventSource

from agents.engine.core.engine import Engine
from controlplane.contract.errors import DeadlineUnmet, Overloaded
from tests.agents.engine.serving import controlling, eventually, serving
from tests.soak import soak

pytestmark = pytest.mark.slow

REQUESTS = soak(400, 1000)
SEED = 20261121
ARRIVALS_PER_S = 100.0
AT_ONCE = 48
"""Requests under way at most, so that a slow machine is asked for less, not refuses nearly all; apart from `BURST`."""
BURST = range(REQUESTS // 2, REQUESTS // 2 + 150)
"""Requests that come all at once, more than may wait: some are shed on any machine."""
PATIENCE_S = 60.0
"""Longest wait for one answer before it counts as hung."""

KNOBS: list[dict[str, Any]] = [
    {"max_num_batched_tokens": 32, "prefill_chunk_size": 16},
    {"max_num_seqs": 3},
    {"num_speculative_tokens": [[2, 4], [8, 1]]},
    {"max_num_batched_tokens": 256, "prefill_chunk_size": 0},
    {"quantization": "int8"},
    {"max_num_seqs": 24, "num_speculative_tokens": 3},
    {"quantization": "none"},
    {"num_speculative_tokens": 0, "max_num_batched_tokens": 512},
]
BAD: list[tuple[dict[str, Any], int]] = [
    ({"prompt": [1] * 600}, 400),
    ({"prompt": ""}, 400),
    ({"temperature": -1}, 400),
    ({"max_tokens": 10_000}, 400),
    ({"logit_bias": {"9999": 1}}, 400),
    ({"stop_token_ids": [-1]}, 400),
    ({"tools": [{"type": "function"}]}, 400),
    ({"no_such_field": 1}, 400),
    ({"model": "another"}, 404),
    ({"priority": 10**9}, 400),
]


def _body(rng: random.Random) -> dict[str, Any]:
    start = rng.choice([[1, 2, 3, 4] * 8, [9, 8, 7] * 20, []])  # Some share a prefix.
    prompt = start + [rng.randrange(1, 320) for _ in range(rng.choice([1, 5, 20, 60, 150]))]
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": rng.choice([1, 2, 8, 24])}
    optional: list[tuple[str, list[Any]]] = [
        ("ignore_eos", [True]),
        ("temperature", [0, 0.7, 1.5]),
        ("top_k", [5, 50]),
        ("top_p", [0.8]),
        ("min_p", [0.1]),
        ("presence_penalty", [0.5]),
        ("repetition_penalty", [1.3]),
        ("logprobs", [0, 3]),
        ("echo", [True]),
        ("n", [2, 3]),
        ("stop", ["e", ["at", "\n"]]),
        ("priority", [0, 1, 2]),
        ("timeout_s", [0.001, 0.05, 20.0]),
        ("cache_salt", ["a", "b"]),
        ("seed", [1, 2]),
    ]
    for name, values in optional:
        if rng.random() < 0.25:
            body[name] = rng.choice(values)
    if rng.random() < 0.1:
        body["prompt_logprobs"] = 1
    elif rng.random() < 0.5:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


async def _whole(client: httpx.AsyncClient, body: dict[str, Any], wanted: int | None) -> str:
    answer = await client.post("/v1/completions", json=body)
    content = answer.json()
    if wanted is not None:
        assert answer.status_code == wanted, (body, content)
        assert content["error"]["message"] and content["error"]["detail"]["field"]
        return "refused"
    if answer.status_code in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1 and content["error"]["detail"]["degraded"]["reason"]
        return "shed"
    assert answer.status_code == 200, (body, content)
    assert [choice["index"] for choice in content["choices"]] == list(range(body.get("n", 1)))
    for choice in content["choices"]:
        assert choice["finish_reason"] in ("stop", "length")
        assert ("prompt_logprobs" in choice) == ("prompt_logprobs" in body)
    assert content["usage"]["completion_tokens"] <= body["max_tokens"] * body.get("n", 1)
    return "whole"


async def _stream(client: httpx.AsyncClient, body: dict[str, Any], leave_after: int | None) -> str:
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        if answer.status_code in (429, 503):
            return "shed"
        assert answer.status_code == 200, (body, await answer.aread())
        told: list[str] = []
        # Not `aiter_lines`, which ends a line at any of Unicode's line ends too: this model writes whatever there is.
        async for one in EventSource(answer).aiter_sse():
            told.append(one.data)
            if leave_after is not None and len(told) > leave_after:
                return "left"
    assert told[-1] == "[DONE]"
    events = [orjson.loads(data) for data in told[:-1]]
    if "error" in events[-1]:  # After another answer of the same request had begun: its deadline, or more urgent ones.
        error = events[-1]["error"]
        assert error["code"] in (DeadlineUnmet.code, Overloaded.code) and error["detail"]["degraded"]["reason"]
        assert "timeout_s" in body or "n" in body or error["code"] == DeadlineUnmet.code, (body, error)
        return "shed"
    ended = [choice["index"] for event in events for choice in event["choices"] if choice["finish_reason"]]
    assert sorted(ended) == list(range(body.get("n", 1)))
    assert events[-1]["usage"]["prompt_tokens"] == len(body["prompt"])
    return "streamed"


async def _one(client: httpx.AsyncClient, rng: random.Random) -> str:
    body = _body(rng)
    kind = rng.random()
    if kind < 0.12:
        wrong, status = rng.choice(BAD)
        return await _whole(client, {**body, "stream": False, **wrong}, status)
    if kind < 0.27:  # Leaves at a random moment: before, during the prompt, or in between.
        asking = asyncio.create_task(_ask(client, {**body, "max_tokens": 200, "ignore_eos": True}, None))
        await asyncio.sleep(rng.choice([0.0, 0.002, 0.02, 0.1]))
        asking.cancel()
        outcome = (await asyncio.gather(asking, return_exceptions=True))[0]
        assert isinstance(outcome, str | asyncio.CancelledError), outcome
        return "left"
    return await _ask(client, body, rng.randrange(4) if kind < 0.35 else None)


async def _ask(client: httpx.AsyncClient, body: dict[str, Any], leave_after: int | None) -> str:
    return await (_stream(client, body, leave_after) if body.get("stream") else _whole(client, body, None))


async def _turn_knobs(control: httpx.Client, done: asyncio.Event) -> int:
    changes = 0
    while not done.is_set():
        knobs = KNOBS[changes % len(KNOBS)]
        changes += 1
        answer = await asyncio.to_thread(control.put, "/config", json={"knobs": knobs, "revision": changes})
        assert answer.status_code == 200, answer.text
        assert answer.json()["knobs"].items() >= knobs.items()
        await asyncio.sleep(soak(0.3, 0.7))
    return changes


async def _soak(address: str, control: httpx.Client) -> tuple[Counter[str], int]:
    rng = random.Random(SEED)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, limits=limits) as client:
        done = asyncio.Event()
        turning = asyncio.create_task(_turn_knobs(control, done))
        room = asyncio.Semaphore(AT_ONCE)
        asking = []
        for number in range(REQUESTS):
            one = asyncio.create_task(_one(client, random.Random(SEED + number)))
            asking.append(one)
            if number not in BURST:
                await room.acquire()
                one.add_done_callback(lambda _: room.release())
                await asyncio.sleep(rng.expovariate(ARRIVALS_PER_S))
        outcomes = Counter(await asyncio.gather(*asking))
        done.set()
        return outcomes, await turning


def _is_clean(engine: Engine, app: FastAPI) -> bool:
    """No blocks held, nobody listening for outputs, on either side of the handover."""
    steps = engine.steps
    if len(app.state.intake.handover) or engine._receivers or len(engine._siblings):
        return False
    idle = not steps.scheduler.running and not len(steps.scheduler.waiting)
    return idle and steps.pool.num_held == 0


@pytest.mark.soak
def test_hundreds_of_requests_leave_nothing_behind(model_dir: Path) -> None:
    apps: list[FastAPI] = []
    options: dict[str, Any] = {
        "max_waiting": 40,
        "kv_cache_memory_bytes": 2**20,
        "default_timeout_s": 45.0,
        "scheduling_policy": "priority",
    }
    with serving(model_dir, apps, **options) as (engine, address), controlling(engine) as control:
        outcomes, changes = asyncio.run(_soak(address, control))
        assert sum(outcomes.values()) == REQUESTS
        assert min(outcomes[kind] for kind in ("whole", "streamed", "refused", "left")) > REQUESTS // 20, outcomes
        assert outcomes["shed"] > 0 and changes > 4
        eventually(lambda: _is_clean(engine, apps[0]))
        assert engine.is_serving
        with httpx.Client(base_url=address) as client:
            answer = client.post("/v1/completions", json={"prompt": "on it goes", "max_tokens": 3, "ignore_eos": True})
            assert answer.json()["usage"]["completion_tokens"] == 3
        told = [event for event in engine.log.after(0, 10**6) if event["kind"] == "finished"]
        names = [event["request_id"] for event in told]
        assert len(names) == len(set(names)), "one finished event for each output"
        assert all(abs(event["unaccounted"]) <= event["e2e"] for event in told)
