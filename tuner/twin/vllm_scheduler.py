"""vLLM's own scheduler and KV cache manager without a model, over a clock that steps move. Runs in vLLM's environment.

    PYTHON_OF_VLLM tuner/twin/vllm_scheduler.py

Reads a question a line from standard input and answers each with a line (JSON; `vllm_twin.py` is who asks). Imports
nothing of Tailwright's, and needs no GPU: of vLLM only what plans is there. What each step computes is decided by
`vllm.v1.core.sched.scheduler.Scheduler`, unchanged, from the same state as in a vLLM that was given the same arrivals
and whose steps took the same time; scheduling is synchronous. Whether a draft token is kept is drawn, as in the twin of
the embedded engine.
"""

import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

MODEL = Path(__file__).resolve().parents[2] / "agents/models/tailwright-py-5m"
"""Only its configuration is read: scheduling depends on no model's."""
_SPARE_TOKENS = 64


def serve(asked: dict[str, Any]) -> dict[str, Any]:
    """asked: `knobs`, `num_blocks`, `block_size`, `seconds_each` (as step_terms.NAMES), `offered` and `kept` of drafts,
    `arrivals` (each `at_s`, `runs` of its prompt's tokens as [token, count], `outputs`, `seed`), in order of time."""
    engine = _Engine(asked)
    engine.run()
    return {
        "stories": engine.stories,
        "busy_s": engine.busy_s,
        "steps": engine.steps,
        "most_running": engine.most_running,
        "queried": engine.queried,
        "hits": engine.hits,
    }


class _Engine:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.arrivals = asked["arrivals"]
        self.knobs = asked["knobs"]
        self.each = asked["seconds_each"]
        self.offered, self.kept = asked["offered"], asked["kept"]
        wanted = self.knobs["num_speculative_tokens"] if self.offered and self.kept else 0
        self.lengths = [(sys.maxsize, wanted)] if isinstance(wanted, int) else wanted
        self.drafts = max(tokens for _, tokens in self.lengths)
        self.stories = [_story(one["at_s"]) for one in self.arrivals]
        self.chances = [Random(one["seed"]) for one in self.arrivals]
        self.busy_s = self.now = 0.0
        self.steps = self.most_running = self.queried = self.hits = 0
        largest = max((_length(one) + one["outputs"] for one in self.arrivals), default=1)
        self.scheduler = _scheduler(
            self.knobs, asked["num_blocks"], asked["block_size"], largest + self.drafts + _SPARE_TOKENS, self.drafts
        )
        self.hasher = _block_hasher(asked["block_size"])
        room = asked["num_blocks"] * asked["block_size"]
        self.fits = [_length(one) + one["outputs"] + self.drafts < room for one in self.arrivals]

    def run(self) -> None:
        scheduler, arrivals, following = self.scheduler, self.arrivals, 0
        while True:
            if not scheduler.has_unfinished_requests():
                if following == len(arrivals):
                    return
                self.now = max(self.now, arrivals[following]["at_s"])
            while following < len(arrivals) and arrivals[following]["at_s"] <= self.now:
                self._arrive(following)
                following += 1
            if scheduler.has_unfinished_requests():
                self._step()

    def _arrive(self, number: int) -> None:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        if not self.fits[number]:
            self.stories[number]["refused"] = True
            return
        one = self.arrivals[number]
        tokens = [token for token, count in one["runs"] for _ in range(count)]
        params = SamplingParams(max_tokens=one["outputs"], ignore_eos=True, temperature=0.0)
        self.scheduler.add_request(
            Request(str(number), tokens, params, None, arrival_time=one["at_s"], block_hasher=self.hasher)
        )

    def _step(self) -> None:
        scheduler, requests = self.scheduler, self.scheduler.requests
        plan = scheduler.schedule()
        if not plan.total_num_scheduled_tokens:
            raise RuntimeError("vLLM planned nothing though somebody waits: the KV cache has too few blocks")
        drafted = plan.scheduled_spec_decode_tokens
        tokens = prompts = sampled = context = attended = 0
        given: list[list[int]] = []
        order = list(plan.num_scheduled_tokens)
        for name in order:
            request, count = requests[name], plan.num_scheduled_tokens[name]
            number, drafts = int(name), len(drafted.get(name, ()))
            end = request.num_computed_tokens
            own, start = count - drafts, end - count
            if self.stories[number]["scheduled_s"] is None:
                self._first_plan(number, request.num_prompt_tokens, start)
            tokens, context = tokens + count, context + end
            if own > 1:
                prompts += 1
                attended += own * (start + (own + 1) / 2)
            if end - drafts >= request.num_tokens:
                sampled += 1 + drafts
                given.append([0] * (1 + self._accepted(number, drafts)))
            else:
                given.append([])
        terms = (1.0, tokens, prompts, sampled, context, attended)
        took_s = sum(each * term for each, term in zip(self.each, terms, strict=True))
        self.most_running = max(self.most_running, len(scheduler.running))
        self.now, self.busy_s, self.steps = self.now + took_s, self.busy_s + took_s, self.steps + 1
        self._commit(plan, order, given)

    def _first_plan(self, number: int, prompt_tokens: int, cached: int) -> None:
        self.stories[number].update(scheduled_s=self.now, cached_tokens=cached)
        self.queried, self.hits = self.queried + prompt_tokens, self.hits + cached

    def _accepted(self, number: int, drafts: int) -> int:
        """Places before the first that is not kept; those beyond the last known go as it."""
        for place in range(drafts):
            if self.chances[number].random() >= self.kept[min(place, len(self.kept) - 1)]:
                return place
        return drafts

    def _commit(self, plan: Any, order: list[str], given: list[list[int]]) -> None:
        from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

        places = {name: place for place, name in enumerate(order)}
        made = ModelRunnerOutput(req_ids=order, req_id_to_index=places, sampled_token_ids=given)
        for outputs in self.scheduler.update_from_output(plan, made).values():
            for output in outputs.outputs:
                story, count = self.stories[int(output.request_id)], len(output.new_token_ids)
                if count and story["first_token_s"] is None:
                    story["first_token_s"] = self.now
                story["outputs"] += count
                if output.finish_reason is not None:
                    story["ended_s"] = self.now
        if self.drafts:
            going = [
                name for name, tokens in zip(order, given, strict=True) if tokens and name in self.scheduler.requests
            ]
            running = len(self.scheduler.running)
            length = next((tokens for largest, tokens in self.lengths if running <= largest), 0)
            proposed = [[0] * length if self._offers(int(name)) else [] for name in going]
            self.scheduler.update_draft_token_ids(DraftTokenIds(going, proposed))

    def _offers(self, number: int) -> bool:
        return bool(self.offered >= 1.0 or self.chances[number].random() < self.offered)


def _story(at_s: float) -> dict[str, Any]:
    times = dict.fromkeys(("scheduled_s", "first_token_s", "ended_s"))
    return {"arrived_s": at_s, **times, "outputs": 0, "cached_tokens": 0, "refused": False}


def _length(arrival: dict[str, Any]) -> int:
    return sum(count for _, count in arrival["runs"])


def _scheduler(knobs: dict[str, Any], num_blocks: int, block_size: int, longest: int, drafts: int) -> Any:
    """As vLLM's engine makes it, for a model of one layer whose cache has so many blocks."""
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        SpeculativeConfig,
        VllmConfig,
    )
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    budget, seqs = knobs["max_num_batched_tokens"], knobs["max_num_seqs"]
    model = ModelConfig(
        model=str(MODEL),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=longest,
        hf_overrides={"max_position_embeddings": longest},
    )
    parallel = ParallelConfig()
    speculative = (
        SpeculativeConfig(
            method="ngram",
            num_speculative_tokens=drafts,
            prompt_lookup_max=4,
            prompt_lookup_min=2,
            target_model_config=model,
            target_parallel_config=parallel,
        )
        if drafts
        else None
    )
    cache = CacheConfig(block_size=block_size, enable_prefix_caching=True)
    cache.num_gpu_blocks = num_blocks
    config = VllmConfig(
        model_config=model,
        cache_config=cache,
        parallel_config=parallel,
        scheduler_config=SchedulerConfig(
            max_num_batched_tokens=max(budget, seqs),
            max_num_seqs=seqs,
            max_model_len=longest,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            long_prefill_token_threshold=knobs["prefill_chunk_size"],
            async_scheduling=False,
        ),
        speculative_config=speculative,
        device_config=DeviceConfig("cpu"),
    )
    spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=model.dtype)
    kv_cache = KVCacheConfig(
        num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    scheduler = Scheduler(
        vllm_config=config,
        kv_cache_config=kv_cache,
        structured_output_manager=StructuredOutputManager(config),
        block_size=block_size,
        log_stats=False,
    )
    scheduler.max_num_scheduled_tokens = budget  # Below what a start would take, as Tailwright's plugin sets it.
    return scheduler


def _block_hasher(block_size: int) -> Any:
    """vLLM's, with a hash that is quick: tokens here are chosen by nobody."""
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    def quick(value: object) -> bytes:
        return hash(value).to_bytes(8, "little", signed=True)

    init_none_hash(quick)
    return get_request_block_hasher(block_size, quick)


def main() -> int:
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr  # What vLLM prints is no answer.
    import vllm

    print(json.dumps({"version": vllm.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
