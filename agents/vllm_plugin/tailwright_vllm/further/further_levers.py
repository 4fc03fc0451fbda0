"""Levers of settings that vLLM itself only takes at its start, and reads anew in each step all the same.

Where the rules come from (vLLM 0.32):
- `watermark` (v1/core/kv_cache_manager.py): `watermark_blocks` of the manager is the fraction of all blocks, rounded
  down. It keeps back only who waits while others are scheduled, so that no value below 1 brings vLLM to a halt.
- `prefill_schedule_interval` (v1/core/sched/scheduler.py): vLLM's data parallel engine asks `schedule()` for steps
  without prompts (`throttle_prefills`), but for every nth. `schedule()` follows only while somebody decodes and nobody
  is kept from a free seat. Here the same is asked of one engine alone; ranks have to agree on the step, so there it
  stays as started.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailwright_vllm.knob_file import PREFILL_SCHEDULE_INTERVAL, WATERMARK
from tailwright_vllm.levers import Lever
from tailwright_vllm.surprises import described


@dataclass
class Interval:
    """Every so many steps prompts are computed; 1: in each."""

    steps: int = 1

    def holds_back(self, step: int) -> bool:
        """Whether this step shall compute no prompts."""
        return self.steps > 1 and step % self.steps != 0


def further_levers(scheduler: Any, interval: Interval) -> "list[Lever]":
    """One for each; one that this vLLM lacks, or that is not safe to move, says why."""
    makers: dict[str, Callable[[], Lever]] = {
        WATERMARK: lambda: _watermark(scheduler),
        PREFILL_SCHEDULE_INTERVAL: lambda: _interval(scheduler, interval),
    }
    levers = []
    for name, make in makers.items():
        try:
            lever = make()
            lever.read()
        except Exception as error:  # noqa: BLE001 - another vLLM's scheduler may be of any shape.
            why = f"this vLLM's scheduler is another: {described(error)}"
            lever = Lever(name, lambda: None, lambda _: None, why)
        levers.append(lever)
    return levers


def _watermark(scheduler: Any) -> Lever:
    manager = scheduler.kv_cache_manager
    blocks = int(scheduler.kv_cache_config.num_blocks)
    asked = float(scheduler.scheduler_config.watermark)
    if not isinstance(manager.watermark_blocks, int):
        raise TypeError("watermark_blocks")

    def move(value: float) -> None:
        nonlocal asked
        manager.watermark_blocks = int(value * blocks)
        asked = float(value)

    def read() -> float:
        """Several fractions come to the same number of blocks: of those the asked one."""
        runs = manager.watermark_blocks
        return asked if runs == int(asked * blocks) else float(runs / blocks)

    return Lever(WATERMARK, read, move)


def _interval(scheduler: Any, interval: Interval) -> Lever:
    started = int(scheduler.scheduler_config.prefill_schedule_interval)
    if not any("throttle_prefills" in _parameters(kind) for kind in type(scheduler).__mro__):
        raise AttributeError("schedule() takes no throttle_prefills")
    if getattr(scheduler.vllm_config.parallel_config, "data_parallel_size", 1) > 1:
        return Lever(PREFILL_SCHEDULE_INTERVAL, lambda: started, lambda _: None, "data parallel ranks must agree on it")

    def move(value: int) -> None:
        interval.steps = value

    # vLLM without data parallelism passes over what it was started with: so nothing is moved before it is asked for.
    return Lever(PREFILL_SCHEDULE_INTERVAL, lambda: interval.steps, move)


def _parameters(kind: type) -> "list[str]":
    """Of the class's own `schedule`."""
    schedule = vars(kind).get("schedule")
    return [] if schedule is None else list(inspect.signature(schedule).parameters)
