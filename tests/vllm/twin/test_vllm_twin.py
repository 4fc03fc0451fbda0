"""The twin's vLLM plans what a real vLLM plans."""

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controlplane.terminal.child import one_thread_each

SCRIPT = Path(__file__).with_name("both_plans.py")
CACHE = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


def question(seed: int, **knobs: int) -> dict[str, Any]:
    """Forty requests at once, for a cache that holds a few of them; a third share their beginnings."""
    random, arrivals = Random(seed), []
    for number in range(40):
        length = random.choice([20, 90, 300, 700])
        runs = [(200 + place, 32) for place in range(length // 32)] if number % 3 == 0 else []
        left = length - sum(count for _, count in runs)
        runs += [(30 + number, left)] if left else []
        arrivals.append({"at_s": 0.0, "runs": runs, "outputs": random.choice([3, 40, 100]), "seed": number})
    return {
        "knobs": {"num_speculative_tokens": 0, **knobs},
        "num_blocks": 60,
        "block_size": 32,
        "seconds_each": [0.006, 6e-5, 2e-4, 2e-4, 1.5e-6, 4e-8],
        "offered": 0.0,
        "kept": [],
        "arrivals": arrivals,
    }


@pytest.mark.parametrize(
    "knobs",
    [
        {"max_num_batched_tokens": 160, "prefill_chunk_size": 96, "max_num_seqs": 6},
        {"max_num_batched_tokens": 512, "prefill_chunk_size": 0, "max_num_seqs": 16},
    ],
    ids=["small", "large"],
)
def test_it_plans_what_a_real_vllm_plans(vllm_executable: Path, knobs: dict[str, int]) -> None:
    """Tokens of each request in each step: chunks, cached prefixes, preemption and what follows are vLLM's own."""
    done = subprocess.run(
        [vllm_executable.with_name("python"), SCRIPT],
        input=json.dumps(question(3, **knobs)).encode(),
        capture_output=True,
        env=one_thread_each() | {**CACHE, "HF_HUB_OFFLINE": "1", "HOME": os.environ["HOME"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:].decode()
    plans = json.loads(done.stdout)
    assert len(plans["real"]) > 100
    assert plans["twin"] == plans["real"]
