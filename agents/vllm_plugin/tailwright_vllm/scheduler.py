"""vLLM's scheduler with limits that move while it serves.

Start vLLM with `--scheduler-cls tailwright_vllm.scheduler.live_scheduler`: it gives the class that fits the server's
scheduling (synchronous or asynchronous), with these limits under the knob file's control. They are attributes that
vLLM's `schedule()` reads anew in each step (`levers.py`):
  max_num_batched_tokens   max_num_scheduled_tokens, within the started one
  prefill_chunk_size       scheduler_config.long_prefill_token_threshold
  max_num_seqs             max_num_active_reqs, within the started max_num_seqs
  num_speculative_tokens   dynamic_sd_lookup (draft length by batch size), within the started length
  watermark, prefill_schedule_interval   see `further_levers.py`

It also counts what bound each step (`step_watch.py`).

Guarantee: limits change between two steps, never within one; without the folder, or without a knob file in it, the
scheduler is vLLM's own. A knob that cannot be moved in this vLLM is left alone and told as not live, with the reason;
where steps cannot be told apart in it, none is counted.
"""

import threading
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from tailwright_vllm.folder import VARIABLE, shared_folder
from tailwright_vllm.installation import greet
from tailwright_vllm.limits import Limits, tell_none
from tailwright_vllm.step_counts import StepCounts
from tailwright_vllm.step_watch import StepWatch
from tailwright_vllm.surprises import described, log, surprises


class _Live:
    """What both schedulers add to vLLM's."""

    _limits: Limits | None = None
    _steps: StepWatch | None = None

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        folder = None
        try:
            folder = shared_folder()
            if folder is None:
                log.info("tailwright: the scheduler keeps its limits, %s is not set", VARIABLE)
                return
            greet()
            limits = Limits(self, folder, rank=_rank(self))
            self._watch_steps(limits, folder)
            threading.Thread(target=limits.follow, name="tailwright-limits", daemon=True).start()
            log.info("tailwright: live limits in %s: %s", folder, ", ".join(limits.live) or "none")
            self._limits = limits
        except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
            surprises.note("scheduler", "limits are not live", error)
            if folder is not None:
                tell_none(folder, f"limits are not live: {described(error)}")

    def schedule(self, *args: Any, **values: Any) -> Any:
        limits = self._limits
        if limits is None:
            return super().schedule(*args, **values)  # type: ignore[misc]
        with limits.between_steps:
            try:
                limits.begin_step()
            except Exception as error:  # noqa: BLE001 - vLLM goes on whatever is wrong with the plugin.
                surprises.note("step", "the knob file could not be looked at before a step", error)
            if limits.interval.holds_back(limits.step):
                args, values = (), {"throttle_prefills": True}
            steps = self._steps
            if steps is None:
                return super().schedule(*args, **values)  # type: ignore[misc]
            try:
                steps.before()
            except Exception as error:  # noqa: BLE001 - as above.
                self._watch_no_more(error)
            try:
                planned = super().schedule(*args, **values)  # type: ignore[misc]
            finally:
                steps.listen_no_more()
            try:
                steps.planned(planned, bool(args[0]) if args else bool(values.get("throttle_prefills")))
            except Exception as error:  # noqa: BLE001 - as above.
                self._watch_no_more(error)
            return planned

    def update_from_output(self, scheduler_output: Any, *args: Any, **values: Any) -> Any:
        answers = super().update_from_output(scheduler_output, *args, **values)  # type: ignore[misc]
        if self._steps is not None:
            try:
                self._steps.computed(scheduler_output, answers)
            except Exception as error:  # noqa: BLE001 - as above.
                self._watch_no_more(error)
        return answers

    def _watch_steps(self, limits: Limits, folder: Path) -> None:
        try:
            counts = StepCounts(folder, _rank(self))
            self._steps = StepWatch(self, counts.count)
            limits.also_written.append(counts.write)
        except Exception as error:  # noqa: BLE001 - the limits are live without it.
            self._watch_no_more(error)

    def _watch_no_more(self, error: Exception) -> None:
        self._steps = None
        surprises.note("steps", "what binds each step is not told", error)


class LiveScheduler(_Live, Scheduler):  # type: ignore[misc]
    """vLLM's synchronous scheduler with live limits."""


class LiveAsyncScheduler(_Live, AsyncScheduler):  # type: ignore[misc]
    """vLLM's asynchronous scheduler with live limits."""


def live_scheduler(vllm_config: Any, *args: Any, **values: Any) -> Any:
    """The scheduler that fits the server's configuration; vLLM calls it as it would the class."""
    kind = LiveAsyncScheduler if vllm_config.scheduler_config.async_scheduling else LiveScheduler
    return kind(vllm_config, *args, **values)


def _rank(scheduler: Any) -> int:
    """Which of the data parallel engines this is; 0 where there is one."""
    parallel = getattr(getattr(scheduler, "vllm_config", None), "parallel_config", None)
    for name in ("data_parallel_index", "data_parallel_rank"):
        rank = getattr(parallel, name, None)
        if isinstance(rank, int):
            return rank
    return 0
