"""Greedy text is transformers' in float32, for every architecture and whatever the engine does to compute it."""

import random
from pathlib import Path
from typing import Any

import pytest

from agents.engine.model.config import read_model_config
from agents.engine.scheduling.cache_groups import layers_per_block
from tests.agents.engine.conftest import served_alone

pytestmark = pytest.mark.slow

BUNDLED = Path(__file__).parents[3] / "agents" / "models" / "tailwright-py-5m"
COUNT = 24
BLOCK_BYTES = 2 * 2 * 2 * 16 * 16 * 4  # layers, keys and values, heads, head size, tokens, float32.

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one by one": {"max_num_seqs": 1},
    "chunked prefill": {"prefill_chunk_size": 7},
    "tight token budget": {"max_num_batched_tokens": 12},
    "budget of one token": {"max_num_batched_tokens": 1},
    "late arrivals mix with decodes": {"arrive_every": 3, "max_num_batched_tokens": 40},
    "n-gram speculation": {"num_speculative_tokens": 4},
    "n-gram speculation by schedule": {"num_speculative_tokens": [[2, 8], [4, 2]], "arrive_every": 5},
    "preemption": {"options": {"kv_cache_memory_bytes": 14 * BLOCK_BYTES}},
    "preemption with speculation": {
        "options": {"kv_cache_memory_bytes": 14 * BLOCK_BYTES},
        "num_speculative_tokens": 3,
    },
    "other block size": {"options": {"block_size": 8}, "prefill_chunk_size": 5},
}


def _prompts(seed: int = 0) -> list[list[int]]:
    """Of several lengths, around the edges of blocks and length classes; two share a prefix, one repeats itself."""
    draw = random.Random(seed)
    prompts = [[draw.randrange(1, 320) for _ in range(length)] for length in (1, 15, 16, 17, 50, 63, 64, 130)]
    prompts.append([*prompts[5][:48], 7, 8, 9])
    prompts.append([5, 6, 7, 8] * 10)
    return prompts


@pytest.mark.parametrize("way", WAYS)
def test_equals_transformers(model_dir: Path, reference: Any, run: Any, way: str) -> None:
    prompts = _prompts()
    assert run(model_dir, prompts, COUNT, **WAYS[way]) == [reference(model_dir, prompt, COUNT) for prompt in prompts]


SHAPES = [
    "full_untied_biased_llama3",
    "single_kv_head_linear",
    "llama_yarn",
    "qwen2",
    "qwen2_sliding",
    "qwen2_all_sliding",
    "qwen3",
    "gemma3",
]
SHAPE_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain torch operations": {"options": {"kernels": "torch"}},
    "chunks and speculation": {"prefill_chunk_size": 30, "num_speculative_tokens": 3},
    "late arrivals under a tight budget": {"arrive_every": 3, "max_num_batched_tokens": 25},
    "torch, chunks, late arrivals": {"options": {"kernels": "torch"}, "prefill_chunk_size": 11, "arrive_every": 4},
    "early exit drafts": {"options": {"speculative_method": "early_exit"}, "num_speculative_tokens": 2},
}


@pytest.mark.parametrize("way", SHAPE_WAYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_transformers_for_every_architecture(
    model_dirs: dict[str, Path], reference: Any, run: Any, shape: str, way: str
) -> None:
    prompts, folder = _prompts(), model_dirs[shape]
    wanted = [reference(folder, prompt, COUNT) for prompt in prompts]
    assert run(folder, prompts, COUNT, **SHAPE_WAYS[way]) == wanted


@pytest.mark.parametrize("shape", ["qwen2_sliding", "qwen2_all_sliding", "qwen3", "gemma3"])
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_preemption_resumes_with_the_same_text(
    model_dirs: dict[str, Path], reference: Any, serve: Any, shape: str, kernels: str
) -> None:
    prompts, folder = _prompts(), model_dirs[shape]
    config = read_model_config(folder)
    groups = config.cache_groups()
    block_bytes = layers_per_block(groups) * config.kv_floats_per_layer * 16 * 4
    options = {"kv_cache_memory_bytes": 16 * len(groups) * block_bytes, "kernels": kernels}
    outputs, engine = serve(folder, prompts, COUNT, options=options, num_speculative_tokens=2)
    assert outputs == [reference(folder, prompt, COUNT) for prompt in prompts]
    steps = [event for event in engine.log.after(0) if event["kind"] == "step"]
    assert sum(event["preemptions"] for event in steps) > 0


@pytest.mark.parametrize("budget", [512, 25])
def test_equals_transformers_with_a_draft_model(
    model_dir: Path, draft_dir: Path, reference: Any, run: Any, budget: int
) -> None:
    prompts = _prompts()
    options = {"speculative_method": "draft_model", "draft_model": draft_dir}
    outputs = run(
        model_dir,
        prompts,
        COUNT,
        options=options,
        num_speculative_tokens=3,
        arrive_every=4,
        max_num_batched_tokens=budget,
    )
    assert outputs == [reference(model_dir, prompt, COUNT) for prompt in prompts]


@pytest.mark.parametrize(
    ("shape", "draft"),
    [("gemma3", "qwen3"), ("grouped_tied", "gemma3"), ("gemma3", "gemma3"), ("qwen2_all_sliding", "qwen2")],
)
def test_a_draft_model_may_be_of_another_family(
    model_dirs: dict[str, Path], reference: Any, run: Any, shape: str, draft: str
) -> None:
    prompts, folder = _prompts(), model_dirs[shape]
    options = {"speculative_method": "draft_model", "draft_model": model_dirs[draft], "speculation_gate": False}
    outputs = run(folder, prompts, COUNT, options=options, num_speculative_tokens=3, arrive_every=4)
    assert outputs == [reference(folder, prompt, COUNT) for prompt in prompts]


def test_a_model_that_drafts_for_itself_has_every_draft_accepted(model_dir: Path, reference: Any) -> None:
    from agents.engine.core.event_log import EventLog
    from agents.engine.core.step import StepEngine
    from agents.engine.options import EngineOptions
    from controlplane.contract.knobs import parse_config

    options = EngineOptions(
        model_dir,
        speculative_method="draft_model",
        draft_model=model_dir,
        config=parse_config({"num_speculative_tokens": 3, "max_num_batched_tokens": 30}),
    )
    engine = StepEngine(options, EventLog())
    prompt = _prompts()[7]
    request = served_alone(engine, prompt, COUNT)
    assert request.tokens[len(prompt) :] == reference(model_dir, prompt, COUNT)
    steps = [event for event in engine.log.after(0) if event["kind"] == "step"]
    drafted, accepted = (sum(event[name] for event in steps) for name in ("draft_tokens", "accepted_tokens"))  # type: ignore[misc]
    assert drafted == accepted > 0


@pytest.mark.parametrize("shape", ["grouped_tied", "qwen2_sliding", "qwen3", "gemma3"])
def test_prefix_hits_do_not_change_text(model_dirs: dict[str, Path], reference: Any, shape: str) -> None:
    from agents.engine.core.event_log import EventLog
    from agents.engine.core.step import StepEngine
    from agents.engine.options import EngineOptions

    folder = model_dirs[shape]
    engine = StepEngine(EngineOptions(folder), EventLog())
    base = _prompts()[7]
    cached: list[int] = []
    for prompt in (base, base, [*base[:100], 3, 4], base[:64], base[:33]):
        request = served_alone(engine, prompt, COUNT)
        assert request.tokens[len(prompt) :] == reference(folder, prompt, COUNT)
        cached.append(request.cached_tokens)
    assert cached == [0, 128, 96, 48, 32]


def test_equals_transformers_for_the_bundled_model(reference: Any, run: Any) -> None:
    draw = random.Random(3)
    prompts = [[draw.randrange(8, 4096) for _ in range(length)] for length in (5, 40, 90, 200)]
    wanted = [reference(BUNDLED, prompt, COUNT) for prompt in prompts]
    assert run(BUNDLED, prompts, COUNT, prefill_chunk_size=50, num_speculative_tokens=3, arrive_every=2) == wanted
