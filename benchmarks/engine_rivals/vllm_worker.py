"""vLLM in its own interpreter, in process and stepped by hand, as our engine is: no server, no detokenizing.

Eager execution: on a CPU compiling takes minutes and gains nothing in decoding. Prefix caching stays on, as it is by
default everywhere here; prompts are distinct.
"""

import logging
import os
import time
from typing import Any

from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.decode_clock import DecodeClock

_state: dict[str, Any] = {}


def load(model_dir: str, dtype: str, threads: int, max_tokens: int) -> dict[str, Any]:
    """max_tokens: both the longest sequence and the most tokens of a step."""
    import torch
    import vllm
    from vllm import LLM

    logging.getLogger("vllm").setLevel(logging.WARNING)
    llm = LLM(
        model=model_dir,
        dtype=dtype,
        enforce_eager=True,
        max_model_len=max_tokens,
        max_num_batched_tokens=max_tokens,
        max_num_seqs=32,
        seed=0,
    )
    _state["engine"] = llm.llm_engine
    return {
        "versions": f"vLLM {vllm.__version__}, torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "preloaded": [os.path.basename(path) for path in os.environ.get("LD_PRELOAD", "").split(":") if path],
    }


def decode(prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """Greedy, all at once, EOS ignored."""
    from vllm import SamplingParams

    engine = _state["engine"]
    params = SamplingParams(temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False)
    clock = DecodeClock(len(prompts))
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": prompt}, params)
    outputs: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            outputs[output.request_id] = list(output.outputs[0].token_ids)
        clock.step([len(tokens) for tokens in outputs.values()])
    return clock.result([outputs[str(number)] for number in range(len(prompts))])


def prefill(prompt: list[int]) -> float:
    """Seconds until the first token."""
    began = time.perf_counter()
    decode([prompt], 1)
    return time.perf_counter() - began


if __name__ == "__main__":
    protocol.answer_requests({"load": load, "decode": decode, "prefill": prefill})
