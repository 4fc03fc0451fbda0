"""Configurations that the sections move between, given through the control plane, and when they are in force.

In force is what the plugin's scheduler wrote into effective.json: the revision and the limits read back from the
scheduler, and `since`, the Unix time at which they came into force between two steps.
"""

import random
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.plane import Plane
from benchmarks.vllm_measures.session import Attached
from benchmarks.vllm_measures.vllm_server import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from controlplane.contract.bodies.nodes import TrialConfig

BASE: dict[str, Any] = {
    "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
    "prefill_chunk_size": 0,
    "max_num_seqs": MAX_NUM_SEQS,
    "num_speculative_tokens": 0,
}
LIMIT_S = 30.0
_LOOK_S = 0.002


@dataclass(frozen=True)
class Change:
    """One change. Seconds from the request to the control plane until the agent had the wish, and until the step that
    ran it; `steps_waited` is the plugin's own count of steps that began in between, None where it does not say."""

    received_s: float | None
    in_force_s: float
    steps_waited: int | None


def drawn(rng: random.Random, before: dict[str, Any]) -> dict[str, Any]:
    """Another full configuration of live limits, different from `before`."""
    while True:
        found: dict[str, Any] = {
            "max_num_batched_tokens": rng.choice((64, 128, 256, 512, 1024)),
            "prefill_chunk_size": rng.choice((0, 32, 64, 128, 256)),
            "max_num_seqs": rng.choice((2, 4, 8, 12, 16)),
            "num_speculative_tokens": rng.choice((0, 2, 4, DRAFTS, [[4, DRAFTS], [12, 2]])),
        }
        if found != before:
            return found


def give(plane: Plane, here: Attached, knobs: dict[str, Any]) -> Change:
    """Have the node run these limits and wait until its scheduler says it does. Raises `WorkerFailed`."""
    before = here.server.effective()
    began = time.time()
    wanted = plane.client.set_trial_config(here.node, TrialConfig(knobs=knobs)).desired_revision
    told: dict[str, Any] = {}
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        told = here.server.effective()
        # An old revision may be wanted again: what counts is what was written since.
        new = told.get("time", 0.0) >= began or before.get("revision") == wanted
        if new and told.get("revision") == wanted:
            if wrong := differences(told, knobs):
                raise WorkerFailed(f"revision {wanted} is in force with other limits than asked for: {wrong}")
            asked = told.get("asked")
            return Change(None if asked is None else asked - began, told["since"] - began, told.get("steps_waited"))
        if not here.agent.is_alive:
            raise WorkerFailed(f"{here.agent.name} ended; its log ends:\n{here.agent.log_end()}")
        time.sleep(_LOOK_S)
    node = plane.node(here.node)
    raise WorkerFailed(f"revision {wanted} is not in force after {LIMIT_S:g} s: {told}; the node says {node}")


def differences(told: dict[str, Any], knobs: dict[str, Any]) -> dict[str, Any]:
    """What the scheduler runs of these limits, where it is another value than wanted."""
    runs = told.get("knobs", {})
    return {name: runs.get(name) for name, value in knobs.items() if runs.get(name) != value}
