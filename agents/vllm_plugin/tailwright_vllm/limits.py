"""The live limits of one scheduler: followed from knobs.json, moved between two steps, told in effective.json.

effective.json, what the scheduler runs, each value read back from it:
  revision, since   of the limits in force, and when they came into force (Unix seconds)
  knobs             every knob's value
  live, fixed       the knobs that can be moved; the others, each with the reason
  capacity, floor   the most and the least they can be moved to
  clamped           what was asked above or below that, by knob
  error             why the newest knobs.json was not followed; empty when it was
  asked             that of the newest knobs.json, the time the agent received the wish
  steps_waited      steps that began in [asked, first step with the new limits), of the last STARTS_KEPT ones; null
                    without `asked`
  more              further live knobs (`further_levers.py`), each {"runs", "started", "why_not"}
  arguments         what vLLM's configuration has of the arguments that the agent asks for (`started_arguments.py`)
  memory            what vLLM's memory holds (`engine_memory.py`), empty where that is not known
  sizes             what the model's configuration says of itself (`model_sizes.py`), empty where there is none
  history           [[since, revision], ...], the last revisions, oldest first
  step, time        steps so far, and when this was told (after the newest knobs.json was looked at)
  plugin, vllm, pid, rank, scheduler, quantization, surprises

Guarantees: a file replaced before a step begins is in force in that step; limits change between two steps, never within
one; nothing here waits for a disk but the reading of a small file after it has changed, or raises into vLLM.
"""

import contextlib
import itertools
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailwright_vllm import __version__
from tailwright_vllm.folder import EFFECTIVE, write_atomically
from tailwright_vllm.further.further_levers import Interval, further_levers
from tailwright_vllm.further.started_arguments import started_arguments
from tailwright_vllm.installation import vllm_version
from tailwright_vllm.knob_file import KnobFile, Wanted
from tailwright_vllm.levers import capacity_of, floor_of, levers_of
from tailwright_vllm.memory.engine_memory import memory
from tailwright_vllm.memory.model_sizes import model_sizes
from tailwright_vllm.surprises import log, surprises
from tailwright_vllm.weight_format import weight_format

POLL_S = 0.2
"""How often the thread wakes with nothing to write. It looks for a new file only if no step has begun since."""
STARTS_KEPT = 512
HISTORY_KEPT = 64
_CHECK_EVERY = 5
"""In one of so many wakings the thread looks whether effective.json is still there."""


class Limits:
    """`between_steps` is held while a step is scheduled. Raises what another vLLM's scheduler may raise."""

    def __init__(self, scheduler: Any, folder: Path, *, rank: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._scheduler, self._clock, self._rank = scheduler, clock, rank
        self._file = KnobFile(folder)
        self._effective = folder / (EFFECTIVE if rank == 0 else f"effective.{rank}.json")
        self.between_steps = threading.Lock()
        self.step = 0
        self.capacity = capacity_of(scheduler)
        self.floor = floor_of(scheduler, self.capacity)
        self._levers = {lever.name: lever for lever in levers_of(scheduler, self.capacity)}
        self.interval = Interval()
        self._further = {lever.name: lever for lever in further_levers(scheduler, self.interval)}
        self._further_started = {name: lever.read() for name, lever in self._further.items()}
        self._arguments = started_arguments(scheduler)
        self._before_step = [lever.before_step for lever in self._levers.values() if lever.before_step is not None]
        model = getattr(getattr(scheduler, "vllm_config", None), "model_config", None)
        self._quantization = weight_format(model)
        self._memory = memory()
        self._sizes = model_sizes(model)
        self._wanted = Wanted(0, {})
        self._steps_waited: int | None = None
        self._error = ""
        self._starts: deque[float] = deque(maxlen=STARTS_KEPT)
        self._history: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=HISTORY_KEPT)
        self._untold: deque[bytes] = deque(maxlen=1)  # Taken by the thread while a step may put in something newer.
        self._last_told = b""
        self._news = threading.Event()
        self.also_written: list[Callable[[], None]] = []  # Called by the thread after each change and once a second.
        for lever in self._levers.values():
            if lever.why_not:
                log.info("tailwright: %s is not live: %s", lever.name, lever.why_not)
        self.look()
        self._tell()

    @property
    def live(self) -> list[str]:
        return [name for name, lever in self._levers.items() if not lever.why_not]

    def begin_step(self) -> None:
        """Called before each step, with `between_steps` held: take up a new file, and note that a step begins."""
        self.look()
        for prepare in self._before_step:
            prepare()
        self.step += 1
        self._starts.append(self._clock())

    def look(self) -> None:
        """Take up the knob file if it has changed."""
        news = self._file.news(self.capacity, self.floor)
        if isinstance(news, Wanted):
            self._apply(news)
            self._tell()
        elif news is not None:
            self._fail(f"{self._file.path.name}: {news}")

    def _fail(self, error: str) -> None:
        if error != self._error:
            self._error = error
            log.warning("tailwright: %s; the last good limits stay", error)
        self._tell()

    def _apply(self, wanted: Wanted) -> None:
        self._error = ""
        for name, value in (*wanted.knobs.items(), *wanted.more.items()):
            (self._levers.get(name) or self._further[name]).try_move(value)
        if wanted.revision != self._wanted.revision:
            self._history.append((self._clock(), wanted.revision))
        self._wanted = wanted
        asked = wanted.asked
        self._steps_waited = None if asked is None else sum(start >= asked for start in self._starts)

    def _tell(self) -> None:
        """Leave what is in force for the thread to write."""
        self._untold.append(json.dumps(self._told()).encode())
        self._news.set()

    def _told(self) -> dict[str, Any]:
        return {
            "revision": self._wanted.revision,
            "since": self._history[-1][0],
            "knobs": {name: lever.read() for name, lever in self._levers.items()},
            "live": self.live,
            "fixed": {name: lever.why_not for name, lever in self._levers.items() if lever.why_not},
            "capacity": vars(self.capacity),
            "floor": vars(self.floor),
            "clamped": self._wanted.clamped,
            "more": {
                name: {"runs": lever.read(), "started": self._further_started[name], "why_not": lever.why_not}
                for name, lever in self._further.items()
            },
            "arguments": self._arguments,
            "error": self._error,
            "asked": self._wanted.asked,
            "steps_waited": self._steps_waited,
            "history": list(self._history),
            "step": self.step,
            "time": self._clock(),
            "plugin": __version__,
            "vllm": vllm_version(),
            "pid": os.getpid(),
            "rank": self._rank,
            "scheduler": type(self._scheduler).__name__,
            "quantization": self._quantization,
            "memory": self._memory,
            "sizes": self._sizes,
            "surprises": surprises.counts,
        }

    def follow(self) -> None:
        """Write what is untold, and look for a new file while no step does; for ever, in a thread of its own.

        Waking costs more than all that is done then, so that it wakes seldom, and beside steps only compares a number.
        """
        for waking in itertools.count(1):
            step = self.step
            told = self._news.wait(POLL_S)
            self._news.clear()
            try:
                # A step is never waited for: it looks by itself.
                if step == self.step and self.between_steps.acquire(blocking=False):
                    try:
                        self.look()
                    finally:
                        self.between_steps.release()
                look_again = waking % _CHECK_EVERY == 0
                self.write(look_again)
                if told or look_again:
                    for write in self.also_written:
                        write()
            except Exception as error:  # noqa: BLE001 - the thread lives as long as vLLM.
                surprises.note("limits", "the knob file could not be followed", error)

    def write(self, look_again: bool = False) -> None:
        """Write effective.json if something is untold, or if it should be looked at and has vanished."""
        untold = None
        with contextlib.suppress(IndexError):
            untold = self._untold.pop()
        if untold is None and look_again and not self._effective.exists():
            untold = self._last_told
        if untold is None:
            return
        self._last_told = untold
        try:
            self._effective.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._effective, untold)
        except OSError as error:
            surprises.note(EFFECTIVE, f"{self._effective} cannot be written", error)


def tell_none(folder: Path, why: str) -> None:
    """effective.json of a scheduler whose limits cannot be moved at all."""
    told = {"revision": 0, "knobs": {}, "live": [], "fixed": {}, "capacity": {}, "error": why, "history": []}
    try:
        write_atomically(folder / EFFECTIVE, json.dumps({**told, "time": time.time(), "pid": os.getpid()}).encode())
    except OSError as error:
        surprises.note(EFFECTIVE, f"{folder / EFFECTIVE} cannot be written", error)
