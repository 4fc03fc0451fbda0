"""A hundred changes of all live knobs, under load, on a real vLLM: nothing fails, nothing restarts, no text changes."""

import asyncio
import os
import random
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import EngineConfig, Quantization
from tests.vllm import limits
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, Answer, VllmServer

CHANGES = 100
MOST_STEPS_WAITED = 2
OUTPUT_TOKENS = 32
CALLERS = 6


def drawn_configs(count: int, seed: int) -> Iterator[EngineConfig]:
    """Limits all over the capacity; every third with a draft schedule."""
    drawn = random.Random(seed)
    for number in range(count):
        drafts: int | tuple[tuple[int, int], ...] = drawn.randint(0, DRAFTS)
        if number % 3 == 0:
            first, second = sorted(drawn.sample(range(1, MAX_NUM_SEQS + 1), 2))
            drafts = ((first, drawn.randint(1, DRAFTS)), (second, drawn.randint(0, DRAFTS)))
        yield EngineConfig(
            # No batch may be smaller than what the running requests' drafts want, or vLLM would hold some back.
            max_num_batched_tokens=drawn.randint(MAX_NUM_SEQS * (DRAFTS + 1), MAX_NUM_BATCHED_TOKENS),
            prefill_chunk_size=drawn.choice((0, 32, 100, 256)),
            max_num_seqs=drawn.randint(1, MAX_NUM_SEQS),
            num_speculative_tokens=drafts,
        )


def test_a_hundred_changes_under_load_fail_nothing_and_change_no_text(vllm_server: VllmServer) -> None:
    asked = prompts(24, seed=11)
    expected = [answer.text for answer in vllm_server.complete_all(asked, OUTPUT_TOKENS)]
    pid, step = vllm_server.pid, limits.told(vllm_server)["step"]
    changed = threading.Event()
    answers: list[list[Answer]] = []

    def load() -> None:
        while not changed.is_set():
            answers.append(vllm_server.complete_all(asked, OUTPUT_TOKENS, CALLERS))

    async def change() -> list[int]:
        waited: list[int] = []
        backend = AttachedVllm(vllm_server.url, vllm_server.folder)
        following = asyncio.create_task(_follow(backend))  # As an agent does: it then needs no look at /metrics.
        try:
            for revision, config in enumerate(drawn_configs(CHANGES, seed=11), 1):
                effective = await backend.apply(config, revision)
                assert effective.revision == revision
                assert {name: effective.knobs[name] for name in config.knobs()} == config.knobs()
                says = limits.told(vllm_server)
                assert not says["clamped"] and not says["error"]
                waited.append(says["steps_waited"])
                # Wait for steps under these limits, so that each change is one under load.
                await asyncio.to_thread(_until_two_steps, vllm_server)
        finally:
            following.cancel()
            await backend.close()
        return waited

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            waited = asyncio.run(change())
        finally:
            changed.set()
        loading.result()

    rounds = len(answers)
    print(f"{CHANGES} changes, {rounds * len(asked)} requests, steps waited: {sorted(waited)}")
    assert [answer.error for one in answers for answer in one if answer.failed] == []
    for one in answers:
        assert [answer.text for answer in one] == expected
    assert vllm_server.alive and vllm_server.pid == pid
    assert limits.told(vllm_server)["step"] >= step + 2 * (CHANGES - 1)
    # Between an agent's receipt and its writing stands only its own process, which shares its cores with the load here
    # and may be held up now and then; a plugin that came late would do so each time. The greatest is printed.
    assert statistics.median(waited) <= MOST_STEPS_WAITED


async def _follow(backend: AttachedVllm) -> None:
    async for _ in backend.events(None):
        pass


def _until_two_steps(server: VllmServer) -> None:
    """vLLM's own log gets a line in each step that made tokens."""
    deadline = time.monotonic() + 60
    with server.raw_log.open("rb") as log:
        log.seek(0, os.SEEK_END)
        steps = 0
        while steps < 2:
            assert time.monotonic() < deadline, "the load ended before the changes did"
            time.sleep(0.005)
            steps += log.read().count(b"\n")


def test_what_needs_a_restart_is_refused_by_name_and_changes_nothing(vllm_server: VllmServer) -> None:
    async def run() -> None:
        backend = AttachedVllm(vllm_server.url, vllm_server.folder)
        full = EngineConfig(**limits.FULL)
        before = await backend.apply(full, 7)
        for config, knob in (
            (full.model_copy(update={"max_num_seqs": MAX_NUM_SEQS + 1}), "max_num_seqs"),
            (full.model_copy(update={"num_speculative_tokens": ((4, DRAFTS + 1),)}), "num_speculative_tokens"),
            (full.model_copy(update={"quantization": Quantization.INT8}), "quantization"),
        ):
            with pytest.raises(KnobOutOfRange) as caught:
                await backend.apply(config, 8)
            assert caught.value.detail["field"] == f"knobs.{knob}"
            assert await backend.effective() == before
        await backend.close()

    asyncio.run(run())
    assert not vllm_server.complete(prompts(1, seed=12)[0], 8).failed
