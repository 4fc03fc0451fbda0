"""Drives vLLM's own scheduler without a model, in vLLM's environment: steps planned by it, computed by nobody.

    TAILWRIGHT_VLLM_DIR=FOLDER VLLM_ENV/bin/python driven_scheduler.py MODEL_DIR < SCENARIOS

SCENARIOS is a JSON list of objects, each the arguments of `limits_of`. Prints a line of JSON: for each, the limits that
the plugin counted step by step (null: a step that it did not count).
"""

import json
import sys
from typing import Any

import torch
from tailwright_vllm.scheduler import live_scheduler
from tailwright_vllm.step_watch import StepWatch
from vllm import SamplingParams
from vllm.config import CacheConfig, ModelConfig, ParallelConfig, SchedulerConfig, SpeculativeConfig, VllmConfig
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

BLOCK = 16
OUTPUT_TOKENS = 900
CAPACITY = 512


def limits_of(
    model: str,
    lengths: "list[int]",
    steps: int,
    *,
    blocks: int = 1000,
    budget: int = CAPACITY,
    seats: int = 16,
    chunk: int = 0,
    drafts: int = 0,
    accepted: int = 0,
    asynchronous: bool = False,
) -> "list[str | None]":
    """What bound each of so many steps, of requests with prompts of these lengths. Of drafts `accepted` are."""
    scheduler = _scheduler(model, blocks, drafts, asynchronous)
    scheduler.max_num_scheduled_tokens = budget  # The limits are moved as the plugin moves them.
    scheduler.max_num_active_reqs = seats
    scheduler.scheduler_config.long_prefill_token_threshold = chunk
    counted: list[str | None] = []
    scheduler._steps = StepWatch(scheduler, counted.append)
    for number, length in enumerate(lengths):
        # No two prompts share a block.
        prompt = [1000 + number, *range(length - 1)]
        sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, ignore_eos=True)
        sampling.update_from_generation_config({}, 0)
        scheduler.add_request(Request(str(number), prompt, sampling, None))
    under_way: list[Any] = []
    found: list[str | None] = []
    for _ in range(steps):
        under_way.append(scheduler.schedule())
        while len(under_way) > asynchronous:
            found.append(_compute(scheduler, under_way.pop(0), drafts, accepted, counted))
    return found


def _compute(scheduler: Any, planned: Any, drafts: int, accepted: int, counted: "list[str | None]") -> "str | None":
    before = len(counted)
    ids = list(planned.num_scheduled_tokens)
    sampled: list[list[int]] = []
    for one in ids:
        request = scheduler.requests[one]
        given = len(planned.scheduled_spec_decode_tokens.get(one, ()))
        prefilling = request.num_computed_tokens < request.num_tokens
        sampled.append([] if prefilling else [5] * (1 + min(accepted, given)))
    answer = ModelRunnerOutput(ids, {one: place for place, one in enumerate(ids)}, sampled)
    scheduler.update_from_output(planned, answer)
    if drafts:
        running = [one.request_id for one in scheduler.running]
        scheduler.update_draft_token_ids(DraftTokenIds(running, [[7] * drafts for _ in running]))
    return counted[-1] if len(counted) > before else None


def _scheduler(model: str, blocks: int, drafts: int, asynchronous: bool) -> Any:
    models = ModelConfig(model=model, dtype="float32", max_model_len=1024)
    cache = CacheConfig(block_size=BLOCK, enable_prefix_caching=False)
    limits = SchedulerConfig(
        max_model_len=1024, is_encoder_decoder=False, max_num_batched_tokens=CAPACITY, max_num_seqs=16,
        async_scheduling=False, scheduler_reserve_full_isl=False,
    )  # fmt: skip
    speculation = None
    if drafts:
        speculation = SpeculativeConfig(
            model="ngram", num_speculative_tokens=drafts, prompt_lookup_max=3, target_model_config=models,
            target_parallel_config=ParallelConfig(),
        )  # fmt: skip
    config = VllmConfig(
        model_config=models, cache_config=cache, scheduler_config=limits, speculative_config=speculation
    )
    config.scheduler_config.async_scheduling = asynchronous  # The CPU platform turns it off; its scheduler is the same.
    cache.num_gpu_blocks = blocks
    layer = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32)
    memory = KVCacheConfig(blocks, [], [KVCacheGroupSpec(["layer"], layer)])
    return live_scheduler(config, memory, StructuredOutputManager(config), block_size=BLOCK, log_stats=True)


if __name__ == "__main__":
    scenarios = json.load(sys.stdin)
    sys.stdout.write(json.dumps([limits_of(sys.argv[1], **one) for one in scenarios]) + "\n")
