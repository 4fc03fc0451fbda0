"""What a real vLLM tells of its memory, against its files, its metrics and the kernel's own account of its process."""

import asyncio
import json
import os
from collections.abc import Callable

import httpx
import psutil
import pytest

from agents.backends.vllm.attached import AttachedVllm
from agents.backends.vllm.measures.cache_memory import cache_memory
from agents.backends.vllm.measures.scrape_reading import parse
from controlplane.contract.planning.memory_estimate import Fit, estimate, refusal
from controlplane.contract.reports.model_shape import shape_of
from controlplane.contract.reports.node_memory import NodeMemory
from tests.vllm.real_vllm import MAX_MODEL_LEN, MODEL_DIR, VllmServer, vllm_arguments

INNER, VOCAB = 640, 4096
"""The bundled model's, in float32 here."""
SMALL_BYTES = int(1.3 * 2**30)
"""What a server may use of the memory that needs half of it to be there at all."""
BUNDLED = "TAILWRIGHT_TEST_VLLM_MODEL" not in os.environ


def memory_of(server: VllmServer) -> tuple[NodeMemory, dict[str, object]]:
    found = asyncio.run(AttachedVllm(server.url, server.folder).effective())
    assert found.memory is not None
    return found.memory, found.knobs


def held_by(server: VllmServer) -> int:
    """Bytes of the process in which the engine is."""
    return int(psutil.Process(server.read_json("effective.json")["pid"]).memory_info().rss)


def test_the_models_sizes_are_those_of_its_configuration(vllm_server: VllmServer) -> None:
    told = asyncio.run(AttachedVllm(vllm_server.url, vllm_server.folder).effective()).shape
    assert told == shape_of(json.loads((MODEL_DIR / "config.json").read_text()))


def test_what_is_told_is_what_is_held(vllm_server: VllmServer) -> None:
    told, runs = memory_of(vllm_server)
    metric = cache_memory(parse(httpx.get(f"{vllm_server.url}/metrics").text, 0.0).cache_config)
    assert metric is not None and metric.kv_cache_memory_bytes is not None
    assert told.kv_cache_memory_bytes is not None and told.kv_cache_size_tokens is not None
    assert (told.kv_cache_size_tokens, told.max_model_len) == (metric.kv_cache_size_tokens, MAX_MODEL_LEN)
    assert told.kv_cache_least_bytes is None  # Its size was asked for.
    block = 128 * told.kv_cache_memory_bytes // told.kv_cache_size_tokens
    assert metric.kv_cache_memory_bytes - block < told.kv_cache_memory_bytes <= metric.kv_cache_memory_bytes
    assert told.limit_bytes is not None and 2**30 < told.limit_bytes <= psutil.virtual_memory().total
    assert told.weights_bytes is not None and told.runtime_bytes is not None and told.draft_weights_bytes == 0
    assert told.runtime_bytes > 2**26 and told.runtime_bytes + told.weights_bytes < held_by(vllm_server)
    assert estimate(told, runs, {}).fit is Fit.FITS


@pytest.mark.skipif(not BUNDLED, reason="of the bundled model")
def test_weights_and_widths_are_the_bundled_models(vllm_server: VllmServer) -> None:
    told, _ = memory_of(vllm_server)
    files = sum(file.stat().st_size for file in MODEL_DIR.glob("*.safetensors"))
    assert told.weights_bytes is not None and files <= told.weights_bytes + 2**16  # The files have headers,
    assert told.weights_bytes <= 1.05 * files  # and not the tables of rotations.
    assert told.activation_bytes_per_token == 2 * INNER * 4
    assert told.logits_bytes_per_token == VOCAB * 4


def test_a_cache_of_the_room_that_is_left_gives_way_and_what_cannot_fit_is_refused(
    start_vllm: Callable[..., VllmServer],
) -> None:
    share = SMALL_BYTES / psutil.virtual_memory().total
    server = start_vllm(
        arguments=[*vllm_arguments(), "--gpu-memory-utilization", f"{share:.4f}"],
        environment={"VLLM_CPU_KVCACHE_SPACE": None},
    )
    told, runs = memory_of(server)
    assert told.limit_bytes is not None and told.kv_cache_memory_bytes is not None
    assert told.limit_bytes == pytest.approx(SMALL_BYTES, rel=0.3)  # Of its memory node, not of the machine.
    assert told.kv_cache_least_bytes == pytest.approx(
        told.kv_cache_memory_bytes * MAX_MODEL_LEN / (told.kv_cache_size_tokens or 0), rel=0.01
    )
    now = estimate(told, runs, {})
    assert now.fit is Fit.FITS and now.kv_cache == told.kv_cache_memory_bytes
    more = {**runs, "max_num_batched_tokens": 16384, "max_num_seqs": 512}
    assert refusal(told, runs, more) is None  # With a smaller cache, or the same.
    most = {**runs, "max_num_batched_tokens": 65536, "max_num_seqs": 4096, "num_speculative_tokens": 32}
    against = refusal(told, runs, most)
    assert against is not None and " instead of " in against.problem
