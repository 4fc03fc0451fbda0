"""The twin's vLLM plans what a real vLLM plans, and a pool that runs vLLM is forecast by what its node told."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.planning.whatif import WhatIfCreate
from controlplane.terminal.child import one_thread_each
from tests.processes import wait_for
from tests.vllm.journey import POOL, Journey
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import VllmServer

SCRIPT = Path(__file__).with_name("both_plans.py")
SERVED_WINDOWS = 24
FAR = 2.0
"""A machine that others share may be half as fast in the second minute as in the first, to which the twin is fitted.
Before each place of a draft had its own chance, steps their seconds and requests no step to wait for twice it was 2.3
to 5 times off."""
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


@pytest.fixture
def served(vllm_executable: Path, vllm_server: VllmServer, tmp_path: Path) -> Iterator[Journey]:
    """A service that knows where vLLM is; its pool's node has served for two minutes, one to six requests at a time,
    with time between."""
    python = vllm_executable.with_name("python")
    made = Journey(tmp_path, vllm_server, NodeRole.SERVING, ("--vllm-python", str(python)))
    try:
        made.start("service")
        made.start("agent")
        asked, random, until = cycle(prompts(300, seed=5)), Random(5), time.time() + SERVED_WINDOWS * WINDOW_S
        while time.time() < until:
            answers = vllm_server.complete_all(list(islice(asked, random.randint(1, 6))), random.randint(8, 64))
            threading.Event().wait(random.expovariate(2.0))  # Its clients' pause: nobody waits for anything.
            assert not any(answer.failed for answer in answers)
        yield made
    finally:
        made.end()


def test_a_pool_that_runs_vllm_is_forecast_by_its_own_telemetry(served: Journey) -> None:
    with served.client() as client:
        wait_for("requests are told", lambda: len(client.requests(pool=POOL, limit=60).items) >= 60, 60)
        asked = WhatIfCreate(pool=POOL, window_s=SERVED_WINDOWS * WINDOW_S, load=3.0)
        told = client.what_if(asked)
        narrow = client.what_if(asked.model_copy(update={"knobs": {"max_num_seqs": 1}}))
    assert told.fit["steps"] > 0.0
    assert set(told.measured) <= set(told.as_is.quantiles) and "tpot:0.5" in told.error
    for name in ("ttft:0.5", "tpot:0.5"):
        assert 1 / FAR < 1.0 + told.error[name] < FAR, (name, told.error, told.measured)
    assert told.as_is.requests > 20
    for quantile in told.changed.quantiles.values():
        assert 0.0 < quantile.low_s <= quantile.value_s <= quantile.high_s
    assert told.changed.busy >= told.as_is.busy
    assert narrow.changed.quantiles["ttft:0.95"].value_s > told.changed.quantiles["ttft:0.95"].value_s, "one at a time"
