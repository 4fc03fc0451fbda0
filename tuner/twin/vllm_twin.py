"""vLLM's own scheduler as a replica's: a process in vLLM's environment (vllm_scheduler.py), asked once for each run."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from controlplane.terminal.child import die_with_parent
from tuner.twin.forecast import Planner
from tuner.twin.pool_run import Pool, Replica
from tuner.twin.simulated_engine import Arrival, Story
from tuner.twin.token_runs import TokenRuns

SCRIPT = Path(__file__).with_name("vllm_scheduler.py")
DRAWS = 2
"""vLLM's scheduler plans each step by itself: a run takes ten times as long."""


@contextmanager
def vllm_planner(python: Path) -> Iterator[Planner]:
    """python: of an environment with vLLM. A window's seconds are those in which requests were computed, so that they
    hold what passes between steps. Raises OSError where it cannot be started, RuntimeError where it ends: what it wrote
    to standard error says why."""
    process = subprocess.Popen(
        [python, SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        preexec_fn=die_with_parent,
    )
    assert process.stdin is not None and process.stdout is not None
    to, answers = process.stdin, process.stdout
    try:
        _answer(answers, process)

        def serve(pool: Pool, arrivals: Sequence[Arrival]) -> Replica:
            to.write(json.dumps(question(pool, arrivals)).encode() + b"\n")
            to.flush()
            told = _answer(answers, process)
            return Replica(**{**told, "stories": [Story(**one) for one in told["stories"]]})

        yield Planner(serve, DRAWS, pauses=False, prompts_apart=True, taken_between_steps=True)
    finally:
        to.close()
        process.kill()
        process.wait()
        answers.close()


def question(pool: Pool, arrivals: Sequence[Arrival]) -> dict[str, Any]:
    """As `vllm_scheduler.serve` wants it."""
    shape = pool.shape
    return {
        "knobs": pool.config.knobs(),
        "num_blocks": shape.num_blocks,
        "block_size": shape.block_size,
        "seconds_each": pool.cost.seconds_each,
        **asdict(pool.drafts),
        "arrivals": [
            {"at_s": one.at_s, "runs": _runs(one.prompt()), "outputs": one.outputs, "seed": one.seed}
            for one in arrivals
        ],
    }


def _runs(tokens: Sequence[int]) -> list[tuple[int, int]]:
    if isinstance(tokens, TokenRuns):
        return tokens.runs()
    return [(token, sum(1 for _ in same)) for token, same in groupby(tokens)]


def _answer(answers: IO[bytes], process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    line = answers.readline()
    if not line:
        raise RuntimeError(f"vLLM's scheduler ended with status {process.wait()}")
    told: dict[str, Any] = json.loads(line)
    return told
