"""Run by vLLM's Python: what a real vLLM plans, with its model, and what its scheduler plans in the twin.

Reads a question of `vllm_scheduler.serve` whose arrivals all come at 0, so that plans depend on no clock, and writes
both lists of plans: of each step, tokens by request.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tuner/twin"))


def noted(scheduler: Any) -> list[dict[str, int]]:
    """What it plans from now on."""
    plans: list[dict[str, int]] = []
    schedule = scheduler.schedule

    def planned(*given: Any, **named: Any) -> Any:
        output = schedule(*given, **named)
        if output.total_num_scheduled_tokens:
            plans.append({name.split("-")[0]: count for name, count in output.num_scheduled_tokens.items()})
        return output

    scheduler.schedule = planned
    return plans


def real(asked: dict[str, Any]) -> list[dict[str, int]]:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    knobs = asked["knobs"]
    engine = LLMEngine.from_engine_args(
        EngineArgs(
            model=str(ROOT / "agents/models/tailwright-py-5m"),
            dtype="float32",
            enforce_eager=True,
            seed=0,
            max_model_len=1024,
            block_size=asked["block_size"],
            num_gpu_blocks_override=asked["num_blocks"],
            max_num_seqs=knobs["max_num_seqs"],
            max_num_batched_tokens=knobs["max_num_batched_tokens"],
            long_prefill_token_threshold=knobs["prefill_chunk_size"],
            async_scheduling=False,
        )
    )
    plans = noted(engine.engine_core.engine_core.scheduler)
    for number, one in enumerate(asked["arrivals"]):
        tokens = [token for token, count in one["runs"] for _ in range(count)]
        params = SamplingParams(max_tokens=one["outputs"], ignore_eos=True, temperature=0.0, detokenize=False)
        engine.add_request(str(number), {"prompt_token_ids": tokens}, params, arrival_time=0.0)
    while engine.has_unfinished_requests():
        engine.step()
    return plans


def twins(asked: dict[str, Any]) -> list[dict[str, int]]:
    import vllm_scheduler

    engine = vllm_scheduler._Engine(asked)
    plans = noted(engine.scheduler)
    engine.run()
    return plans


def main() -> int:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    json.dump({"twin": twins(asked), "real": real(asked)}, answers)
    answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
