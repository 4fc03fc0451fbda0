"""What can be tuned, knob by knob, by each of its sources."""

from typing import Any

from agents.backends.vllm.doctor.knob_table import BY_AGENT, BY_HAND, Row, drawn, from_node_file, from_scheduler
from agents.backends.vllm.doctor.knob_table import from_server as by_server
from controlplane.contract.knobs import KNOBS

TOLD: dict[str, Any] = {
    "knobs": {"max_num_batched_tokens": 512, "prefill_chunk_size": 0, "max_num_seqs": 8, "num_speculative_tokens": 0},
    "live": ["max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs"],
    "fixed": {"num_speculative_tokens": "no drafts"},
    "capacity": {"max_num_batched_tokens": 2048, "max_num_seqs": 32, "num_speculative_tokens": 0},
    "floor": {"max_num_batched_tokens": 5, "prefill_chunk_size": 5},
    "quantization": None,
}


def keyed(rows: list[Row]) -> dict[str, Row]:
    assert [row.knob for row in rows] == list(KNOBS)
    return {row.knob: row for row in rows}


def test_the_scheduler_own_words_say_most() -> None:
    rows = keyed(from_scheduler(TOLD, managed=False))
    assert rows["max_num_batched_tokens"] == Row("max_num_batched_tokens", "512", "5 to 2048", BY_HAND)
    assert rows["prefill_chunk_size"] == Row("prefill_chunk_size", "0", "from 5, 0 = off", "-")
    assert rows["max_num_seqs"].live == "1 to 32"
    assert rows["num_speculative_tokens"] == Row("num_speculative_tokens", "0", "", BY_HAND, "no drafts")
    assert rows["quantization"].runs == "none" and not rows["quantization"].live
    assert keyed(from_scheduler(TOLD, managed=True))["max_num_seqs"].beyond == BY_AGENT


def test_what_the_plugin_moves_beside_them_stands_between() -> None:
    more = {
        "watermark": {"runs": 0.25, "started": 0, "why_not": ""},
        "max_num_queued_reqs": {"runs": 1_000_000, "started": 8, "why_not": ""},
        "max_num_queued_tokens": {"runs": None, "started": None, "why_not": "each of vLLM's 2 API servers has its own"},
    }
    rows = {row.knob: row for row in from_scheduler({**TOLD, "more": more}, managed=False)}
    assert rows["watermark"] == Row("watermark", "0.25", "0 to 0.9", "-")
    assert rows["max_num_queued_reqs"] == Row("max_num_queued_reqs", "1000000", "1 to 1000000 = no limit", "-")
    fixed = rows["max_num_queued_tokens"]
    assert (fixed.runs, fixed.live) == ("not known", "") and "2 API servers" in fixed.why


def test_an_old_plugin_that_tells_less_is_read_too() -> None:
    told = {name: value for name, value in TOLD.items() if name not in ("floor", "fixed")}
    rows = keyed(from_scheduler(told, managed=False))
    assert rows["max_num_batched_tokens"].live == "1 to 2048"
    assert rows["num_speculative_tokens"].why == "not told"


def test_by_the_server_own_configuration() -> None:
    config = {
        "scheduler_config": {
            "max_num_batched_tokens": 4096,
            "max_num_scheduled_tokens": 2048,
            "max_num_seqs": 32,
            "max_num_active_seqs": None,
            "long_prefill_token_threshold": 0,
        },
        "speculative_config": {"num_speculative_tokens": 4},
        "model_config": {"quantization": "fp8"},
    }
    rows = keyed(by_server(config, plugin=True, managed=False))
    assert rows["max_num_batched_tokens"].live == "1 to 2048" and rows["max_num_seqs"].runs == "32"
    assert rows["num_speculative_tokens"].live == "0 to 4" and rows["quantization"].runs == "fp8"
    fixed = keyed(by_server(config, plugin=False, managed=False))
    assert all(not row.live for row in fixed.values())
    assert "vLLM's own" in fixed["max_num_seqs"].why
    undrafted = keyed(by_server({**config, "speculative_config": None}, plugin=True, managed=False))
    assert "--speculative-config" in undrafted["num_speculative_tokens"].why


def test_by_a_node_file() -> None:
    initial = {**TOLD["knobs"], "quantization": "none"}
    limits = {"max_num_batched_tokens": 16384, "max_num_seqs": 512, "num_speculative_tokens": 0}
    rows = keyed(from_node_file(TOLD["capacity"], limits, ["none", "fp8"], initial, plugin=True))
    assert rows["max_num_seqs"] == Row("max_num_seqs", "8", "1 to 32", f"up to 512: {BY_AGENT}")
    assert rows["quantization"].beyond == f"none, fp8: {BY_AGENT}"
    bare = keyed(from_node_file(TOLD["capacity"], limits, ["none"], initial, plugin=False))
    assert not bare["max_num_seqs"].live and "plugin" in bare["max_num_seqs"].why
    assert drawn(list(rows.values()), "t").row_count == len(KNOBS)
