"""What agents report is taken part by part: no bad part costs the good ones, and none gets in."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.knobs import KNOBS
from controlplane.fleet import effective

GOOD: dict[str, Any] = {
    "revision": 3,
    "knobs": {"max_num_seqs": 8, "num_speculative_tokens": [[4, 2], [16, 1]], "quantization": "int8", "block_size": 32},
    "sources": {"max_num_seqs": "GET /config", "block_size": "argument"},
    "change_classes": {"quantization": "swap"},
    "live_limits": {"max_num_seqs": 64},
    "live_floors": {"max_num_batched_tokens": 9},
    "limits": {"max_num_seqs": 128},
    "formats": ["none", "int8"],
    "costs": {
        "live": {"count": 1, "last_s": 0.5, "mean_s": 0.5, "unavailable_s": 0.0}
        | {"warm_ups": 1, "warm_up_s": 2.0, "capacity_lost_s": 0.7}
    },
    "memory": {
        "limit_bytes": 2**34,
        "weights_bytes": 2**30,
        "weights_bytes_by_format": {"none": 2**30, "int8": 2**28},
        "draft_weights_bytes": 0,
        "kv_cache_memory_bytes": 2**29,
        "kv_cache_least_bytes": 2**24,
        "kv_cache_size_tokens": 4096,
        "max_model_len": 2048,
        "activation_bytes_per_token": 9216,
        "logits_bytes_per_token": None,
        "runtime_bytes": 2**28,
        "swap_holds_both": True,
    },
    "declared": {
        "block_size": {"change_class": "restart", "start": 16, "values": [16, 32], "minimum": None, "maximum": None}
        | {"log": False, "unit": "tokens", "help": "Of the KV cache."}
    },
    "shape": {
        "layers": 4,
        "hidden": 256,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 64,
        "intermediate": 704,
        "vocabulary": 4096,
        "experts": 8,
        "experts_a_token": 2,
        "expert_intermediate": 128,
        "shared_intermediate": 64,
        "dense_layers": 1,
        "windowed_layers": 2,
        "window": 128,
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_rope_head_dim": 16,
        "v_head_dim": 64,
    },
    "cache_reset": 2,
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def body(**parts: Any) -> bytes:
    return json.dumps({**GOOD, **parts}).encode()


def test_a_good_one_is_kept_whole() -> None:
    found, problems = effective.read(body())
    assert problems == []
    assert found is not None and found.model_dump(mode="json") == GOOD


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("costs", {"live": {"count": 1, "last_s": float("inf"), "mean_s": 1e308}}, "costs.live: last_s"),
        ("costs", {"live": {"count": 1, "last_s": 0.1, "mean_s": float("nan")}}, "costs.live: mean_s"),
        ("costs", {"live": {"count": -1, "last_s": 0.1, "mean_s": 0.1}}, "costs.live: count"),
        ("cache_reset", -1, "cache_reset"),
        ("cache_reset", "many", "cache_reset"),
        ("costs", {"warm": {"count": 1, "last_s": 0.1, "mean_s": 0.1}}, "costs.warm"),
        ("costs", [], "costs: wants an object"),
        ("sources", {"max_num_seqs": "x" * 501}, "sources.max_num_seqs"),
        ("sources", {"other": "x"}, "sources.other"),
        ("change_classes", {"quantization": "never"}, "change_classes.quantization"),
        ("live_limits", {"quantization": 3}, "live_limits.quantization"),
        ("live_limits", {"max_num_seqs": -3}, "live_limits.max_num_seqs"),
        ("limits", {"max_num_seqs": 10**400}, "limits.max_num_seqs"),
        ("formats", "int8", "formats: wants a list"),
        ("formats", ["<script>"], "formats.0"),
        ("formats", ["int8"] * 65, "formats: at most 64"),
    ],
)
def test_a_bad_part_is_named_and_the_others_are_kept(part: str, value: Any, problem: str) -> None:
    found, problems = effective.read(body(**{part: value}))
    assert found is not None
    assert problems[0].startswith(problem)
    kept = found.model_dump(mode="json")
    assert {name: kept[name] for name in GOOD if name != part} == {name: GOOD[name] for name in GOOD if name != part}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quantization", ["int8"]),
        ("quantization", "<script>"),
        ("max_num_seqs", '"><script>'),
        ("max_num_seqs", True),
        ("max_num_seqs", 3.5),
        ("max_num_seqs", float("nan")),
        ("max_num_seqs", 10**300),
        ("max_num_seqs", None),
        ("num_speculative_tokens", []),
        ("num_speculative_tokens", [[4]]),
        ("num_speculative_tokens", [[4, "2"]]),
        ("num_speculative_tokens", [[1, 1]] * 65),
        ("unheard_of", 3),
        ("x" * 900_000, 3),
    ],
)
def test_a_knob_of_another_type_is_left_out_by_name(name: str, value: Any) -> None:
    found, problems = effective.read(body(knobs={**GOOD["knobs"], name: value}))
    assert found is not None
    assert found.knobs == {known: knob for known, knob in GOOD["knobs"].items() if known != name}
    assert problems[0].startswith(f"knobs.{name[:64]}") and len(problems[0]) < 300


def test_a_value_beyond_the_bounds_is_what_it_is() -> None:
    found, problems = effective.read(body(knobs={"max_num_seqs": 10**9}))
    assert (problems, found and found.knobs) == ([], {"max_num_seqs": 10**9})


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[" * 100_000, "not JSON"), (b"\xff", "not JSON"), (b"1" * 5000, "not JSON"), (b"3", "wants an object")],
)
def test_what_is_no_configuration_is_none(content: bytes, problem: str) -> None:
    found, problems = effective.read(content)
    assert found is None and problems[0].startswith(problem)


@pytest.mark.parametrize("wrong", [{"heads": 0}, {"newer": 3}, {"experts_a_token": 9}])
def test_sizes_of_a_model_are_taken_whole_or_not_at_all(wrong: dict[str, int]) -> None:
    found, problems = effective.read(body(shape={**GOOD["shape"], **wrong}))
    assert found is not None and found.shape is None and found.knobs == GOOD["knobs"]
    assert len(problems) == 1 and problems[0].startswith("shape.")
    assert effective.read(body(shape=[3]))[1] == ["shape.input should be a valid dictionary or instance of ModelShape"]


def test_a_wrong_figure_of_memory_costs_no_other() -> None:
    said = {**GOOD["memory"], "weights_bytes": -1, "max_model_len": "long", "newer": 3}
    found, problems = effective.read(body(memory=said))
    assert [problem.partition(":")[0] for problem in problems] == ["memory.weights_bytes", "memory.max_model_len"]
    assert found is not None and found.memory is not None
    assert (found.memory.weights_bytes, found.memory.max_model_len) == (None, None)
    assert found.memory.kv_cache_size_tokens == 4096 and found.knobs == GOOD["knobs"]
    assert effective.read(body(memory=[3]))[1] == ["memory: wants an object"]
    found, problems = effective.read(body(memory=None))
    assert found is not None and found.memory is None and problems == []


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(list(GOOD)), ANYTHING | st.dictionaries(st.sampled_from(list(KNOBS)), ANYTHING)))
def test_whatever_is_said_what_comes_out_can_be_stored_and_read_again(parts: dict[str, Any]) -> None:
    found, problems = effective.read(json.dumps({**GOOD, **parts}).encode())
    assert len(problems) <= effective.MOST_PROBLEMS + 1
    if found is not None:
        text = json.dumps(found.model_dump(mode="json"), allow_nan=False)
        assert effective.stored("n", json.loads(text)) == found
        found.model_dump_json().encode()


def test_a_row_that_an_older_version_stored_is_read_without_its_bad_parts(caplog: pytest.LogCaptureFixture) -> None:
    bad = {**GOOD, "knobs": {"quantization": ["int8"], "max_num_seqs": 8}}
    bad["costs"] = {"live": {"count": 1, "last_s": float("inf"), "mean_s": 1.0}}
    with caplog.at_level(logging.WARNING):
        found = [effective.stored("an older row", bad) for _ in range(3)]
    assert found[0] == EffectiveConfig(**{**GOOD, "knobs": {"max_num_seqs": 8}, "costs": {}})
    assert len(caplog.records) == 1 and "quantization" in caplog.text and "last_s" in caplog.text


def test_a_cost_is_finite_and_never_negative() -> None:
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="mean_s"):
            ChangeCost(count=1, last_s=1.0, mean_s=wrong)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(list(GOOD)), ANYTHING | st.dictionaries(st.sampled_from(list(KNOBS)), ANYTHING)))
def test_what_is_good_as_a_whole_comes_to_the_same_part_by_part(parts: dict[str, Any]) -> None:
    said = json.loads(body(**parts))
    whole = effective._whole(said)
    found, problems = effective._part_by_part(said)
    assert whole is None or (whole, []) == (found, problems)
    assert whole is not None or problems or found is None


def test_a_zero_byte_which_no_database_keeps_is_taken_out() -> None:
    found, problems = effective.read(body(sources={"max_num_seqs": "a\x00b"}))
    assert problems == [] and found is not None and found.sources == {"max_num_seqs": "ab"}


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ([], "declared: wants an object"),
        ({"max_num_seqs": GOOD["declared"]["block_size"]}, "declared.max_num_seqs: no name for a declared knob"),
        ({"Block size": GOOD["declared"]["block_size"]}, "declared.Block size: no name"),
        ({"block_size": {"change_class": "restart", "start": 16}}, "declared.block_size: value error, give either"),
        ({"block_size": {**GOOD["declared"]["block_size"], "start": "<script>"}}, "declared.block_size: start"),
    ],
)
def test_a_knob_that_is_not_well_declared_is_none(declared: Any, why: str) -> None:
    found, problems = effective.read(body(declared=declared))
    assert found is not None and found.declared == {}
    assert "block_size" not in found.knobs and found.knobs["max_num_seqs"] == 8
    assert problems[0].startswith(why) and any("knobs.block_size" in one for one in problems)


def test_a_value_of_a_declared_knob_is_a_scalar() -> None:
    found, problems = effective.read(body(knobs={**GOOD["knobs"], "block_size": [16]}))
    assert found is not None and "block_size" not in found.knobs
    assert len(problems) == 1


def test_what_is_wrong_is_told_each_time_and_what_is_good_read_once() -> None:
    bad = json.dumps({"revision": 1, "knobs": {"max_num_seqs": "many"}}).encode()
    good = json.dumps({"revision": 1, "knobs": {"max_num_seqs": 17}}).encode()
    assert [len(effective.read(bad)[1]) for _ in range(2)] == [1, 1]
    first, again = effective.read(good), effective.read(good)
    assert first[0] is again[0] and first[0] is not None and first[0].knobs == {"max_num_seqs": 17}
