"""What a step is made of: by hand for one deployment, and how the parts move with load, width and memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import ACCELERATORS, ENGINES, FORMATS
from controlplane.hardware.steady_batch import NAMES, Deployment, Load, parts_of, room

SHAPE = ModelShape(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocabulary=128256
)  # fmt: skip
EXPERTS = SHAPE.model_copy(update={"experts": 8, "experts_a_token": 2, "expert_intermediate": 14336})
ONE = Deployment(SHAPE, ACCELERATORS["h100"], FORMATS["bf16"], "vllm", 1, 2)
LOADS = st.builds(
    Load, st.floats(1, 8192), st.floats(1, 4096), st.floats(1, 512), st.floats(0, 1)
)  # fmt: skip


def named(deployment: Deployment, load: Load) -> dict[str, float]:
    return dict(zip((*NAMES, *ENGINES), parts_of(deployment, load, ENGINES), strict=True))


def test_the_parts_are_those_of_the_formulas() -> None:
    parts = named(ONE, Load(1000, 500, 11))
    layers = 32 * (2 * 4096 * 128 * (32 + 8) + 3 * 4096 * 14336)
    assert parts["weights"] == pytest.approx((2 * layers + 4 * 128256 * 4096) / 3.35e12)
    assert parts["kv"] == pytest.approx(11 * 1250 * 131_072 / 3.35e12)
    assert parts["prompts"] == pytest.approx(2 * layers * 1000 * 10 / 500 / 989e12)
    assert parts["attention"] == pytest.approx(2 * 32 * 4096 * 1000**2 * 10 / 500 / 989e12)
    assert parts["exchange"] == 0
    assert (parts["vllm"], parts["sglang"], parts["trtllm"]) == (32e-6, 0, 0)


def test_a_single_request_meets_no_other_prompt() -> None:
    parts = named(ONE, Load(1000, 500, 1))
    assert parts["prompts"] == parts["attention"] == 0


def test_a_step_reads_the_experts_that_its_tokens_take_and_those_of_a_prompt() -> None:
    of_experts = replace(ONE, shape=EXPERTS, accelerator=ACCELERATORS["b300"])
    assert EXPERTS.expert_weights == 32 * 3 * 4096 * 14336 and EXPERTS.expert_layers == 32
    head = 4 * 128256 * 4096
    alone = named(of_experts, Load(1000, 500, 1))
    assert alone["weights"] == pytest.approx((2 * EXPERTS.token_weights + head) / 8e12)
    assert alone["experts"] == 32e-6 and named(ONE, Load(1000, 500, 1))["experts"] == 0
    crowd = named(of_experts, Load(1000, 1, 10))
    assert crowd["weights"] == pytest.approx((2 * EXPERTS.layer_weights + head) / 8e12), "each step has a prompt"
    assert crowd["prompts"] == pytest.approx(2 * EXPERTS.token_weights * 9000 / 2250e12)


def test_latents_are_read_by_each_rank_and_multiplied_by_each_decode() -> None:
    """As DeepSeek-V2-Lite has them: 512 and 64 values a token, 16 heads of 128 and 64."""
    latents = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "heads": 16}
    one = replace(ONE, shape=SHAPE.model_copy(update=latents))
    parts = named(one, Load(1000, 500, 11))
    held = 11 * 1250 * 32
    assert parts["kv"] == pytest.approx(held * 576 * 2 / 3.35e12)
    prompts = 16 * (128 + 64 + 128) * 32 * 1000**2 * 10 / 500
    assert parts["attention"] == pytest.approx((prompts + 2 * held * 16 * (512 + 64 + 512)) / 989e12)
    four = named(replace(one, ranks=4), Load(1000, 500, 11))
    assert four["kv"] == pytest.approx(parts["kv"]) and four["attention"] == pytest.approx(parts["attention"] / 4)
    assert room(replace(one, ranks=4), Load(1000, 500, 11)) < 1.5 * room(one, Load(1000, 500, 11))


def test_layers_with_a_window_keep_and_read_no_more_than_it() -> None:
    half = replace(ONE, shape=SHAPE.model_copy(update={"windowed_layers": 16, "window": 128}))
    load = Load(2000, 96, 4)
    whole, windowed = named(ONE, load), named(half, load)
    assert windowed["kv"] == pytest.approx(whole["kv"] * (2048 + 128) / 4096)
    assert windowed["attention"] == pytest.approx(whole["attention"] * (2000 + 256) / 4000)
    assert room(half, load) == pytest.approx(room(ONE, load) * 4096 / (2048 + 128))
    short = Load(50, 20, 4)
    assert named(half, short) == named(ONE, short)


@given(LOADS, st.sampled_from([1, 2, 4, 8]), st.sampled_from([SHAPE, EXPERTS]))
def test_nothing_is_negative_and_more_load_is_never_less_work(load: Load, ranks: int, shape: ModelShape) -> None:
    deployment = replace(ONE, ranks=ranks, shape=shape)
    parts = parts_of(deployment, load, ENGINES)
    more = parts_of(deployment, replace(load, concurrency=load.concurrency + 1), ENGINES)
    assert all(part >= 0 for part in parts)
    assert all(after >= before * (1 - 1e-9) for before, after in zip(parts, more, strict=True))


@given(LOADS)
def test_what_the_cache_has_is_not_computed_again(load: Load) -> None:
    none, all_ = (named(ONE, replace(load, cached=share)) for share in (0.0, 1.0))
    assert all_["prompts"] == all_["attention"] == 0
    assert none["prompts"] >= named(ONE, load)["prompts"] >= 0
    assert none["attention"] >= named(ONE, load)["attention"] >= 0
    assert all_["kv"] == none["kv"]


def test_who_finds_no_room_waits_and_costs_no_step_anything() -> None:
    load = Load(8192, 1024, 64)
    at_once = room(ONE, load)
    assert 1 < at_once < 64
    assert parts_of(ONE, load, ENGINES) == parts_of(ONE, replace(load, concurrency=at_once), ENGINES)
    assert room(replace(ONE, kv_bytes=1), load) == pytest.approx(2 * at_once)


def test_wider_reads_less_each_and_exchanges() -> None:
    load = Load(1024, 1024, 16)
    narrow, wide = named(ONE, load), named(replace(ONE, ranks=4), load)
    assert wide["weights"] == pytest.approx(narrow["weights"] / 4)
    assert wide["kv"] == pytest.approx(narrow["kv"] / 4)
    assert wide["exchange"] > 0
    copied = named(replace(ONE, ranks=16), load)
    assert copied["kv"] == pytest.approx(narrow["kv"] / 8), "16 ranks hold copies of 8 KV heads"


def test_each_stage_of_a_pipeline_computes_its_layers_for_its_share_of_the_requests() -> None:
    """Two stages with eight requests each take as long, one after the other, as one would with eight, and a hop each
    besides; the head and the host's part are in each, as the slowest has them. All prompts are cached."""
    load = Load(1000, 500, 16, cached=1.0)
    two, eight = named(replace(ONE, stages=2), load), named(ONE, replace(load, concurrency=8))
    for part in ("kv", "vllm", "experts"):
        assert two[part] == pytest.approx(eight[part])
    assert two["weights"] - eight["weights"] == pytest.approx(4 * 128256 * 4096 / 3.35e12)
    assert two["exchange"] == pytest.approx(2 * (8 * 4096 * 2 / 450e9 + 10e-6))
    assert (two["requests"], two["step"]) == (16e-6, 2e-4)
    few = named(replace(ONE, stages=2), replace(load, concurrency=1))
    assert few["kv"] == pytest.approx(named(ONE, replace(load, concurrency=1))["kv"]), "no half of a request runs"


def test_layers_that_do_not_divide_are_as_slow_and_as_full_as_the_stage_that_has_most() -> None:
    load = Load(1000, 500, 11)
    three = replace(ONE, stages=3)
    assert three.stage_share == 11 / 32 and three.devices == 3
    kv = named(replace(ONE, stages=1), replace(load, concurrency=11 / 3))["kv"]
    assert named(three, load)["kv"] == pytest.approx(kv * 33 / 32)
    layers = 2 * SHAPE.layer_weights * 11 / 32
    held = (80e9 * 0.9 - 4e9 - layers - 2 * SHAPE.embedding_weights) / (131_072 * 11 / 32)
    assert room(three, load) == pytest.approx(held / 1250)


def test_prompts_hold_up_all_of_a_pipeline_or_fill_each_others_gaps() -> None:
    load = Load(1000, 500, 41)
    four = replace(ONE, stages=4)
    alone = named(four, load)
    filled = dict(zip((*NAMES, *ENGINES), parts_of(four, load, ENGINES, gaps_filled=True), strict=True))
    assert alone["prompts"] == pytest.approx(named(ONE, load)["prompts"]), "each passes all stages before the next"
    assert filled["prompts"] == pytest.approx(alone["prompts"] / 4)
    assert filled["kv"] == alone["kv"]
    assert parts_of(ONE, load, ENGINES, gaps_filled=True) == parts_of(ONE, load, ENGINES)


@given(LOADS, st.integers(1, 32))
def test_more_stages_never_make_a_decode_quicker_than_its_share_of_the_requests_would(load: Load, stages: int) -> None:
    with_stages = parts_of(replace(ONE, stages=stages), load, ENGINES, gaps_filled=True)
    running = min(load.concurrency, max(1.0, room(replace(ONE, stages=stages), load)))
    alone = named(ONE, replace(load, concurrency=max(1.0, running / stages)))
    for part in ("weights", "kv"):
        assert dict(zip(NAMES, with_stages, strict=False))[part] >= alone[part] * (1 - 1e-9)
