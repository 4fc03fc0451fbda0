"""vLLM's queue limits moved while a real vLLM serves: who is refused is counted, and let in once they are raised."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports import finish_reasons
from controlplane.contract.reports.declared_knobs import with_more
from tests.agents.backends.vllm.following import Following, followed
from tests.processes import wait_for
from tests.vllm import limits
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import MODEL, VllmServer

REQS, TOKENS = "max_num_queued_reqs", "max_num_queued_tokens"
NONE = {REQS: 1_000_000, TOKENS: 100_000_000}
CONFIG = EngineConfig(**{**limits.FULL, "num_speculative_tokens": 0})  # A token a step: who is in flight stays so.
BURST = 12


@contextmanager
def in_flight(server: VllmServer) -> Iterator[None]:
    """A request that decodes as long as the context has space."""
    body = {"model": MODEL, "prompt": prompts(1, seed=31)[0][:32], "max_tokens": 900, "stream": True}
    more = {"temperature": 0, "ignore_eos": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body | more, timeout=300, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        lines = answer.iter_lines()  # Held: its end would be the request's.
        assert next(lines)
        yield


def burst(server: VllmServer) -> Counter[int]:
    """Answers by status."""
    return Counter(answer.status for answer in server.complete_all(prompts(BURST, seed=32), 8, callers=BURST))


def follow(server: VllmServer, work: Callable[[AttachedVllm], Awaitable[None]]) -> None:
    """With the plugin's stream open; afterwards the limits are as at the start."""
    backend, pid = AttachedVllm(server.url, server.folder), server.pid

    async def run(following: Following) -> None:
        while not following.hellos:  # noqa: ASYNC110 - the stream says that it is open.
            await asyncio.sleep(0.01)
        assert await refused(backend) == 0  # From here on.
        before = await backend.effective()
        assert {name: before.knobs[name] for name in NONE} == NONE
        assert {before.declared[name].change_class for name in NONE} == {ChangeClass.LIVE}
        try:
            await work(backend)
        finally:
            back = await backend.apply(CONFIG, 99)
        assert {name: back.knobs[name] for name in NONE} == NONE

    followed(backend, run)
    assert server.alive and server.pid == pid


async def refused(backend: AttachedVllm) -> int:
    lost = await backend.lost()
    return 0 if lost is None else lost.requests[finish_reasons.REFUSED]


def test_a_burst_above_the_limit_is_refused_counted_and_served_once_it_is_raised(vllm_server: VllmServer) -> None:
    async def work(backend: AttachedVllm) -> None:
        low = await backend.apply(with_more(CONFIG, {REQS: 1}), 1)
        assert low.knobs[REQS] == 1 and low.sources[REQS] == "vLLM server: scheduler_config.max_num_queued_reqs"
        with in_flight(vllm_server):
            assert await asyncio.to_thread(burst, vllm_server) == {503: BURST}
            assert await refused(backend) == BURST
            high = await backend.apply(with_more(CONFIG, {REQS: 64}), 2)
            assert high.knobs[REQS] == 64
            assert await asyncio.to_thread(burst, vllm_server) == {200: BURST}
        assert await refused(backend) == 0

    follow(vllm_server, work)


def test_prompts_that_wait_fill_the_limit_of_tokens(vllm_server: VllmServer) -> None:
    one_seat = CONFIG.model_copy(update={"max_num_seqs": 1})

    def waits() -> bool:
        lines = httpx.get(f"{vllm_server.url}/metrics", trust_env=False).text.splitlines()
        return any(line.startswith("vllm:num_requests_waiting{") and line.endswith(" 1.0") for line in lines)

    async def work(backend: AttachedVllm) -> None:
        told = await backend.apply(with_more(one_seat, {TOKENS: 8}), 1)
        assert told.knobs[TOKENS] == 8
        with in_flight(vllm_server), ThreadPoolExecutor(1) as pool:
            second = pool.submit(vllm_server.complete, prompts(1, seed=33)[0], 8)
            await asyncio.to_thread(wait_for, "the second request waits", waits)
            assert await asyncio.to_thread(burst, vllm_server) == {503: BURST}
            assert await refused(backend) == BURST
            assert (await backend.apply(with_more(CONFIG, {TOKENS: 10**6}), 2)).knobs[TOKENS] == 10**6
            assert await asyncio.to_thread(burst, vllm_server) == {200: BURST}
            assert (await asyncio.to_thread(second.result)).status == 200
        assert await refused(backend) == 0

    follow(vllm_server, work)
