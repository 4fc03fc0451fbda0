"""What vLLM tells of its configuration, knob by knob: nothing guessed."""

from typing import Any

import pytest

from agents.backends.vllm.live_change import obstacles
from agents.backends.vllm.readback import contradictions, from_scheduler, from_server
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, Quantization

SERVER: dict[str, Any] = {
    "model_config": {"quantization": "compressed-tensors"},
    "scheduler_config": {
        "max_num_batched_tokens": 2048,
        "max_num_scheduled_tokens": 1024,
        "max_num_seqs": 16,
        "max_num_active_seqs": None,
        "long_prefill_token_threshold": 64,
        "long_prefill_token_threshold_adaptive": False,
        "scheduler_cls": None,
    },
    "speculative_config": {"num_speculative_tokens": 8, "num_speculative_tokens_per_batch_size": None},
}
"""As vLLM 0.32 answers GET /server_info?config_format=json, the fields that count."""
TOLD: dict[str, Any] = {
    "revision": 3,
    "knobs": {
        "max_num_batched_tokens": 700,
        "prefill_chunk_size": 64,
        "max_num_seqs": 8,
        "num_speculative_tokens": [[4, 8], [16, 2]],
    },
    "live": ["max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens"],
    "fixed": {},
    "capacity": {"max_num_batched_tokens": 1024, "max_num_seqs": 16, "num_speculative_tokens": 8},
    "floor": {"max_num_batched_tokens": 9, "prefill_chunk_size": 9},
    "quantization": None,
}


def scheduler(**changed: Any) -> dict[str, Any]:
    return {**SERVER, "scheduler_config": {**SERVER["scheduler_config"], **changed}}


def speculation(**changed: Any) -> dict[str, Any]:
    return {**SERVER, "speculative_config": {**SERVER["speculative_config"], **changed}}


def test_the_server_tells_each_knob_and_where_it_stands() -> None:
    found = from_server(SERVER, 0, {})
    assert found.knobs == {
        "max_num_batched_tokens": 1024,
        "prefill_chunk_size": 64,
        "max_num_seqs": 16,
        "num_speculative_tokens": 8,
        "quantization": "compressed-tensors",
    }
    assert found.sources["max_num_batched_tokens"] == "GET /server_info: scheduler_config.max_num_scheduled_tokens"
    assert found.sources.keys() == found.knobs.keys()
    assert set(found.change_classes.values()) == {ChangeClass.RESTART}
    assert found.live_limits == {} and found.formats == []
    assert found.limits["max_num_seqs"] == 16


@pytest.mark.parametrize(
    ("config", "unknown"),
    [
        (None, set(KNOBS)),
        (scheduler(long_prefill_token_threshold_adaptive=True), {"prefill_chunk_size"}),
        (scheduler(max_num_seqs="many"), {"max_num_seqs"}),
        (
            scheduler(scheduler_cls="tailwright_vllm.scheduler.live_scheduler"),
            set(KNOBS) - {"quantization"},
        ),
        (speculation(num_speculative_tokens_per_batch_size=[[1, 4, 8]]), {"num_speculative_tokens"}),
        ({**SERVER, "speculative_config": 7}, {"num_speculative_tokens"}),
        ({**SERVER, "model_config": None}, {"quantization"}),
        ({}, set(KNOBS)),
    ],
)
def test_what_cannot_be_known_is_left_out(config: dict[str, Any] | None, unknown: set[str]) -> None:
    found = from_server(config, 0, {})
    assert set(from_server(SERVER, 0, {}).knobs) - set(found.knobs) == unknown
    assert found.sources.keys() == found.knobs.keys()


def test_without_speculation_there_are_no_drafts() -> None:
    assert from_server({**SERVER, "speculative_config": None}, 0, {}).knobs["num_speculative_tokens"] == 0


def test_the_scheduler_tells_what_moves_and_why_the_rest_does_not() -> None:
    told = {
        **TOLD,
        "live": TOLD["live"][:3],
        "knobs": {**TOLD["knobs"], "num_speculative_tokens": 4},
        "fixed": {"num_speculative_tokens": "this drafter insists on its length"},
    }
    found = from_scheduler(told, {})
    assert found.revision == 3 and found.knobs["max_num_batched_tokens"] == 700
    assert found.change_classes["num_speculative_tokens"] is ChangeClass.RESTART
    assert "insists" in found.sources["num_speculative_tokens"]
    assert found.live_limits == {"max_num_batched_tokens": 1024, "max_num_seqs": 16}
    assert found.live_floors == {"max_num_batched_tokens": 9, "prefill_chunk_size": 9}
    assert found.limits == {**found.live_limits, "num_speculative_tokens": 4}
    assert from_scheduler({**told, "live": []}, {}).live_floors == {}, "a knob that does not move has none"
    assert found.formats == ["none"]


def test_a_knob_whose_value_the_scheduler_cannot_read_is_left_out() -> None:
    found = from_scheduler({**TOLD, "knobs": {**TOLD["knobs"], "max_num_seqs": None}}, {})
    assert "max_num_seqs" not in found.knobs and "max_num_seqs" not in found.sources


def test_another_servers_folder_contradicts() -> None:
    assert contradictions(TOLD, SERVER) == []
    assert contradictions(TOLD, scheduler(max_num_seqs=32)) == ["max_num_seqs 16, while the server was started with 32"]
    assert contradictions(TOLD, {**SERVER, "speculative_config": None})
    assert contradictions(TOLD, scheduler(max_num_batched_tokens=512))
    assert contradictions(TOLD, {}) == contradictions({}, SERVER) == []


@pytest.mark.parametrize(
    ("changed", "knob"),
    [
        ({}, None),
        ({"num_speculative_tokens": ((4, 8), (16, 0))}, None),
        ({"prefill_chunk_size": 0}, None),
        ({"prefill_chunk_size": 65536}, None),
        ({"max_num_seqs": 17}, "max_num_seqs"),
        ({"max_num_batched_tokens": 8}, "max_num_batched_tokens"),
        ({"prefill_chunk_size": 8}, "prefill_chunk_size"),
        ({"num_speculative_tokens": ((4, 9),)}, "num_speculative_tokens"),
        ({"quantization": Quantization.FP8}, "quantization"),
    ],
)
def test_what_only_a_restart_can_do(changed: dict[str, Any], knob: str | None) -> None:
    base = EngineConfig(max_num_batched_tokens=700, max_num_seqs=8)
    found = obstacles(base.model_copy(update=changed), TOLD)
    assert [one.knob for one in found] == ([] if knob is None else [knob])
