"""What vLLM's own metric says of its KV cache is taken as it stands, and nothing else is."""

from pathlib import Path

import pytest

from agents.backends.vllm.measures.cache_memory import cache_memory
from agents.backends.vllm.measures.scrape_reading import parse
from controlplane.contract.reports.node_memory import NodeMemory

SCRAPE = Path(__file__).parent.parent / "data/metrics-0.32-second.txt"
TOLD = {"kv_cache_memory_bytes": "1024", "num_gpu_blocks": "10", "block_size": "16"}


def test_a_real_servers_metrics() -> None:
    found = cache_memory(parse(SCRAPE.read_text(), 0.0).cache_config)
    assert found == NodeMemory(kv_cache_memory_bytes=2**30, kv_cache_size_tokens=174_720, max_model_len=1024)


def test_an_older_one_tells_blocks() -> None:
    assert cache_memory(TOLD) == NodeMemory(kv_cache_memory_bytes=1024, kv_cache_size_tokens=160)


@pytest.mark.parametrize("told", [{}, {"num_gpu_blocks": "None", "block_size": "16"}, {"kv_cache_memory_bytes": "-5"}])
def test_what_tells_nothing_is_not_told(told: dict[str, str]) -> None:
    assert cache_memory(told) is None


@pytest.mark.parametrize("concurrency", ["None", "nan", "inf", "0.5", "many"])
def test_a_length_is_not_made_up(concurrency: str) -> None:
    found = cache_memory({**TOLD, "kv_cache_max_concurrency": concurrency})
    assert found is not None and found.max_model_len is None


@pytest.mark.parametrize(("tokens", "longest"), [(174_720, 1024), (3000, 2000), (2000, 2000), (100_001, 777)])
def test_the_length_is_found_again(tokens: int, longest: int) -> None:
    times = tokens / longest
    told = {"kv_cache_size_tokens": str(int(times * longest)), "kv_cache_max_concurrency": str(times)}
    found = cache_memory(told)
    assert found is not None and found.max_model_len == longest


def test_figures_beyond_belief_are_not_believed() -> None:
    assert cache_memory({"kv_cache_memory_bytes": "9" * 30}) is None
