"""vLLM's scheduler with limits that move while it serves.

Start vLLM with `--scheduler-cls trimtab_vllm.scheduler.live_scheduler`: it gives the class that fits the server's
scheduling (synchronous or asynchronous), with these limits under the knob file's control. They are attributes that
vLLM's `schedule()` reads anew in each step:
  max_num_batched_tokens   max_num_scheduled_tokens, within the started max_num_batched_tokens
  prefill_chunk_size       scheduler_config.long_prefill_token_threshold
  max_num_seqs             max_num_active_reqs, within the started max_num_seqs
  num_speculative_tokens   dynamic_sd_lookup (draft length by batch size), within the started length

Guarantee: limits change between two steps, never within one; without a knob file the scheduler is vLLM's own. A knob
whose attribute this vLLM lacks is left alone and told as not live.
"""

import contextlib
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from trimtab_vllm import __version__
from trimtab_vllm.folder import EFFECTIVE, KNOBS, VARIABLE, shared_folder, write_atomically
from trimtab_vllm.knob_file import (
    LIVE,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    BadKnobFile,
    Capacity,
    Schedule,
    Wanted,
    draft_lookup,
    parse,
)

log = logging.getLogger("trimtab_vllm")

POLL_S = 0.02


class Limits:
    """The live limits of one scheduler: read, set, and told. `between_steps` is held while a step is scheduled."""

    def __init__(self, scheduler: Any, folder: Path) -> None:
        self._scheduler = scheduler
        self._file, self._effective = folder / KNOBS, folder / EFFECTIVE
        self.between_steps = threading.Lock()
        self.step = 0
        config = scheduler.scheduler_config
        self.capacity = Capacity(
            config.max_num_batched_tokens, config.max_num_seqs, int(getattr(scheduler, "num_spec_tokens", 0) or 0)
        )
        model = getattr(getattr(scheduler, "vllm_config", None), "model_config", None)
        self._quantization = getattr(model, "quantization", None)  # vLLM's name of the weight format; None: plain.
        self._drafts: int | Schedule = self.capacity.num_speculative_tokens
        self.live = [name for name in LIVE if self._can_move(name)]
        self._seen: tuple[int, int, int] | None = None
        self._wanted = Wanted(0, {})
        self._error = ""
        self._tell()

    def follow(self) -> None:
        """Look for a new knob file for ever; runs in a thread of its own."""
        while True:
            self.look()
            time.sleep(POLL_S)

    def look(self) -> None:
        """Take up the knob file if it has changed."""
        try:
            found = self._file.stat()
        except OSError:
            return
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            wanted = parse(self._file.read_bytes(), self.capacity)
        except (OSError, BadKnobFile) as error:
            self._error = f"{self._file.name}: {error}"
            log.warning("trimtab: %s; the last good limits stay", self._error)
        else:
            with self.between_steps:
                self._apply(wanted)
            self._error = ""
        self._tell()

    def _apply(self, wanted: Wanted) -> None:
        scheduler = self._scheduler
        for name, value in wanted.knobs.items():
            if name not in self.live:
                continue
            if name == MAX_NUM_BATCHED_TOKENS:
                scheduler.max_num_scheduled_tokens = value
            elif name == PREFILL_CHUNK_SIZE:
                scheduler.scheduler_config.long_prefill_token_threshold = value
            elif name == MAX_NUM_SEQS:
                scheduler.max_num_active_reqs = value
            else:
                scheduler.dynamic_sd_lookup = draft_lookup(value, self.capacity.max_num_seqs)
                self._drafts = value
        self._wanted = wanted

    def _can_move(self, name: str) -> bool:
        scheduler = self._scheduler
        if name == NUM_SPECULATIVE_TOKENS:
            return self.capacity.num_speculative_tokens > 0 and hasattr(scheduler, "dynamic_sd_lookup")
        if name == PREFILL_CHUNK_SIZE:
            return hasattr(scheduler.scheduler_config, "long_prefill_token_threshold")
        return hasattr(
            scheduler, "max_num_scheduled_tokens" if name == MAX_NUM_BATCHED_TOKENS else "max_num_active_reqs"
        )

    def _read_back(self) -> dict[str, Any]:
        scheduler = self._scheduler
        return {
            MAX_NUM_BATCHED_TOKENS: getattr(
                scheduler, "max_num_scheduled_tokens", self.capacity.max_num_batched_tokens
            ),
            PREFILL_CHUNK_SIZE: getattr(scheduler.scheduler_config, "long_prefill_token_threshold", 0),
            MAX_NUM_SEQS: getattr(scheduler, "max_num_active_reqs", self.capacity.max_num_seqs),
            NUM_SPECULATIVE_TOKENS: self._drafts,
        }

    def _tell(self) -> None:
        told = {
            "revision": self._wanted.revision,
            "knobs": self._read_back(),
            "live": self.live,
            "capacity": vars(self.capacity),
            "clamped": self._wanted.clamped,
            "error": self._error,
            "step": self.step,
            "time": time.time(),
            "plugin": __version__,
            "scheduler": type(self._scheduler).__name__,
            "quantization": self._quantization,
        }
        try:
            write_atomically(self._effective, json.dumps(told).encode())
        except OSError as error:
            log.warning("trimtab: %s cannot be written: %s", self._effective, error)


class _Live:
    """What both schedulers add to vLLM's."""

    _limits: Limits | None = None

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        try:
            folder = shared_folder()
            if folder is None:
                log.info("trimtab: the scheduler keeps its limits, %s is not set", VARIABLE)
                return
            limits = Limits(self, folder)
            limits.look()
            threading.Thread(target=limits.follow, name="trimtab-limits", daemon=True).start()
            self._limits = limits
        except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
            log.warning("trimtab: limits are not live: %s: %s", type(error).__name__, error)

    def schedule(self, *args: Any, **values: Any) -> Any:
        limits = self._limits
        with limits.between_steps if limits is not None else contextlib.nullcontext():
            if limits is not None:
                limits.step += 1
            return super().schedule(*args, **values)  # type: ignore[misc]


class LiveScheduler(_Live, Scheduler):  # type: ignore[misc]
    """vLLM's synchronous scheduler with live limits."""


class LiveAsyncScheduler(_Live, AsyncScheduler):  # type: ignore[misc]
    """vLLM's asynchronous scheduler with live limits."""


def live_scheduler(vllm_config: Any, **values: Any) -> Any:
    """The scheduler that fits the server's configuration; vLLM calls it as it would the class."""
    kind = LiveAsyncScheduler if vllm_config.scheduler_config.async_scheduling else LiveScheduler
    return kind(vllm_config=vllm_config, **values)
