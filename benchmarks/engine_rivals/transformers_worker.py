"""Hugging Face transformers: `generate` on a batch, and its continuous batching."""

import copy
import time
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.decode_clock import DecodeClock

_PAGE_TOKENS = 256
_GENERATION: Any = GenerationConfig
_models: dict[str, Any] = {}
_paged: dict[str, Any] = {}


class _Marks(BaseStreamer):
    """Tells the clock after each step; the first call brings the prompts."""

    def __init__(self, clock: DecodeClock, requests: int) -> None:
        self._clock, self._requests, self._count = clock, requests, -1

    def put(self, value: torch.Tensor) -> None:
        self._count += 1
        if self._count:
            self._clock.step([self._count] * self._requests)

    def end(self) -> None:
        pass


def load(name: str, model_dir: str, dtype: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    torch.set_num_threads(threads)
    model: Any = AutoModelForCausalLM.from_pretrained(model_dir, dtype=getattr(torch, dtype))
    model.to(device).eval()
    # None of these may end an output early or change it.
    model.generation_config = _GENERATION(do_sample=False, pad_token_id=0, use_cache=True)
    _models[name] = model
    return {
        "versions": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "threads": torch.get_num_threads(),
    }


def unload(name: str) -> None:
    _models.pop(name, None)
    _paged.pop(name, None)


def decode(name: str, prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """`generate`, greedy. Prompts must be of one length, so that nothing is padded."""
    tokens = torch.tensor(prompts, device=_models[name].device)
    clock = DecodeClock(len(prompts))
    with torch.inference_mode():
        out = _models[name].generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            streamer=_Marks(clock, len(prompts)),
        )
    return clock.result(out[:, tokens.shape[1] :].tolist())


def decode_continuous(name: str, prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """`generate_batch`, greedy, measured on the timestamps that it records itself; its setup is outside."""
    # Continuous batching puts other attention functions into the model, so it gets its own.
    if name not in _paged:
        _paged[name] = copy.deepcopy(_models[name])
    longest = max(map(len, prompts)) + new_tokens
    blocks = len(prompts) * (-(-longest // _PAGE_TOKENS) + 1) + 4
    config = ContinuousBatchingConfig(
        page_size=_PAGE_TOKENS,
        num_blocks=blocks,
        max_batch_tokens=max(512, sum(map(len, prompts))),
        max_requests_per_batch=max(4, len(prompts)),
    )
    generation = _GENERATION(do_sample=False, max_new_tokens=new_tokens, eos_token_id=-1, pad_token_id=0)
    clock = DecodeClock(len(prompts))
    results = _paged[name].generate_batch(
        inputs=prompts,
        generation_config=generation,
        continuous_batching_config=config,
        record_timestamps=True,
        progress_bar=False,
        warmup=False,
    )
    finished = list(results.values())
    if len(finished) != len(prompts) or any(one.error is not None for one in finished):
        raise RuntimeError(f"{len(finished)} of {len(prompts)} requests came back: {[one.error for one in finished]}")
    all_started = max(one.timestamps[0] for one in finished)
    before = [sum(mark <= all_started for mark in one.timestamps) for one in finished]
    clock.step(before, all_started)
    found = clock.result([list(one.generated_tokens) for one in finished], max(one.timestamps[-1] for one in finished))
    return {**found, "busy_cores": float("nan")}


def prefill(name: str, prompt: list[int]) -> float:
    """Seconds until the first token."""
    began = time.perf_counter()
    decode(name, [prompt], 1)
    return time.perf_counter() - began


if __name__ == "__main__":
    protocol.answer_requests(
        {"load": load, "unload": unload, "decode": decode, "decode_continuous": decode_continuous, "prefill": prefill}
    )
