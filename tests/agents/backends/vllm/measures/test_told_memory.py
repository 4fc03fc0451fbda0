"""A vLLM's memory is what plugin and metric tell, each figure for itself."""

from typing import Any

import pytest

from agents.backends.vllm.measures.told_memory import told_memory
from controlplane.contract.reports.node_memory import NodeMemory

CACHE = NodeMemory(kv_cache_memory_bytes=1000, kv_cache_size_tokens=50)


def test_where_both_tell_the_plugin_counts() -> None:
    found = told_memory({"kv_cache_memory_bytes": 900, "limit_bytes": 5000, "weights_bytes": 70}, CACHE, "int8")
    assert found == NodeMemory(
        limit_bytes=5000,
        weights_bytes=70,
        weights_bytes_by_format={"int8": 70},
        kv_cache_memory_bytes=900,
        kv_cache_size_tokens=50,
    )


@pytest.mark.parametrize("plugin", [None, {}, [], "much", {"newer": 1}])
def test_an_older_plugin_leaves_the_metrics_word(plugin: Any) -> None:
    assert told_memory(plugin, CACHE, "none") == CACHE
    assert told_memory(plugin, None, "none") is None


def test_a_format_whose_name_nobody_could_keep_costs_no_figure() -> None:
    assert told_memory({"weights_bytes": 70}, None, "a format/of its own") == NodeMemory(weights_bytes=70)


@pytest.mark.parametrize("value", [-1, 2**60, 1.5, "7", True, None, {"a": 1}, [1]])
def test_what_is_no_figure_costs_no_other(value: Any) -> None:
    found = told_memory(
        {"limit_bytes": value, "runtime_bytes": 5, "weights_bytes_by_format": {"none": 1}}, None, "none"
    )
    assert found == NodeMemory(runtime_bytes=5)
