"""vLLM's queue limits moved while it serves, on the stand-in with the real plugin: who is refused, counted, let in."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports import finish_reasons
from controlplane.contract.reports.declared_knobs import with_more
from tests.agents.backends.vllm.conftest import ALL_LIMITS, StandInServer
from tests.agents.backends.vllm.following import Following, followed

pytestmark = pytest.mark.slow

REQS, TOKENS = "max_num_queued_reqs", "max_num_queued_tokens"
CONFIG = EngineConfig(max_num_batched_tokens=1024, max_num_seqs=16)
BURST = 5


@contextmanager
def one_in_flight(server: StandInServer) -> Iterator[None]:
    body = {"prompt": [1] * 8, "max_tokens": 10**6, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, trust_env=False, timeout=60) as answer:
        lines = answer.iter_lines()  # Held: its end would be the request's.
        assert next(lines)
        yield


def burst(server: StandInServer) -> Counter[int]:
    """Answers to requests that come one after the other, by status."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        body = {"prompt": [1] * 8, "max_tokens": 4}
        return Counter(http.post("/v1/completions", json=body).status_code for _ in range(BURST))


def test_a_burst_is_refused_counted_and_served_once_the_limit_is_raised(server: StandInServer) -> None:
    server.start(*ALL_LIMITS, STAND_IN_QUEUES="1")
    backend = AttachedVllm(server.url, server.folder)
    process = server.process

    async def work(following: Following) -> None:
        while not following.hellos:  # noqa: ASYNC110 - the plugin's stream is open.
            await asyncio.sleep(0.01)
        assert await backend.lost() is None
        before = await backend.effective()
        assert {name: before.knobs[name] for name in before.declared} == {REQS: 1_000_000, TOKENS: 100_000_000}
        assert before.declared[REQS].change_class is ChangeClass.LIVE
        low = await backend.apply(with_more(CONFIG, {REQS: 1}), 4)
        assert (low.knobs[REQS], low.knobs[TOKENS], low.revision) == (1, 100_000_000, 4)
        with one_in_flight(server):
            assert await asyncio.to_thread(burst, server) == {503: BURST}
            lost = await backend.lost()
            assert lost is not None and lost.requests == {finish_reasons.REFUSED: BURST} and lost.revision == 4
            high = await backend.apply(with_more(CONFIG, {REQS: 64}), 5)
            assert high.knobs[REQS] == 64
            assert await asyncio.to_thread(burst, server) == {200: BURST}
        assert await backend.lost() is None
        back = await backend.apply(CONFIG, 6)
        assert back.knobs[REQS] == 1_000_000 and (await backend.effective()).knobs == back.knobs

    followed(backend, work)
    assert server.process is process and process is not None and process.poll() is None


def test_the_start_is_the_servers_own_and_what_is_out_of_range_is_refused(server: StandInServer) -> None:
    server.start(*ALL_LIMITS, "--max-num-queued-tokens=4096", STAND_IN_QUEUES="1")

    async def run() -> None:
        backend = AttachedVllm(server.url, server.folder)
        assert (await backend.effective()).declared[TOKENS].start == 4096
        moved = await backend.apply(with_more(CONFIG, {TOKENS: 100_000_000}), 3)
        assert moved.knobs[TOKENS] == 100_000_000
        for wrong in (0, 100_000_001, 8.5):
            with pytest.raises(KnobOutOfRange, match=TOKENS):
                await backend.apply(with_more(CONFIG, {TOKENS: wrong}), 4)
        back = await backend.apply(CONFIG, 5)
        assert back.knobs[TOKENS] == 4096

    asyncio.run(run())


def test_a_release_without_queue_limits_declares_none(server: StandInServer) -> None:
    server.start(*ALL_LIMITS)

    async def run() -> None:
        backend = AttachedVllm(server.url, server.folder)
        assert (await backend.effective()).declared == {}
        assert (await backend.apply(CONFIG, 3)).knobs == CONFIG.knobs()
        with pytest.raises(KnobOutOfRange, match=r"max_num_queued_reqs: 8 needs a restart of vLLM"):
            await backend.apply(with_more(CONFIG, {REQS: 8}), 4)

    asyncio.run(run())
