"""vLLM's queue limits in its server process: followed from knobs.json, told in queue_limits.json.

queue_limits.json, what `check_admission` of this process reads:
  limits            of each limit {"runs", "started", "why_not"}: read back, null for none; why it cannot be moved
  revision, asked   those of the newest knobs.json that was followed
  error             why the newest knobs.json was not followed; empty when it was
  process           as in plugin.json: told by another process, it is of an earlier server
  time, pid, plugin

Guarantees: limits that are in knobs.json when the server starts are in force before its first request; later ones
within POLL_S. Requests never wait for any of it, and nothing here raises into vLLM.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailwright_vllm import __version__
from tailwright_vllm.folder import QUEUE_LIMITS, write_atomically
from tailwright_vllm.further.queue_levers import queue_levers
from tailwright_vllm.installation import PROCESS
from tailwright_vllm.knob_file import Capacity, KnobFile, Wanted
from tailwright_vllm.surprises import log, surprises

POLL_S = 0.1
"""How often the thread looks for a new file: the most that a change of a queue limit takes."""
_CHECK_EVERY = 10
"""In one of so many wakings the thread looks whether queue_limits.json is still there."""
_OF_NO_MATTER = Capacity(1, 1, 0)
"""What the engine's limits are clamped to, which are not taken up here."""

_followed: "dict[Path, QueueLimits]" = {}


def follow_queue_limits(folder: Path, vllm_config: Any, api_servers: int) -> None:
    """Follow the folder's knob file from now on, once in each process."""
    if folder in _followed:
        return
    limits = _followed[folder] = QueueLimits(folder, vllm_config, api_servers)
    if limits.live:
        threading.Thread(target=limits.follow, name="tailwright-queue", daemon=True).start()
        log.info("tailwright: live queue limits: %s", ", ".join(limits.live))


class QueueLimits:
    """Those of one server process; what knobs.json says is in force when this is made."""

    def __init__(
        self, folder: Path, vllm_config: Any, api_servers: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = KnobFile(folder)
        self._effective = folder / QUEUE_LIMITS
        self._clock = clock
        self._levers = {lever.name: lever for lever in queue_levers(vllm_config, api_servers)}
        self._started = {name: lever.read() for name, lever in self._levers.items()}
        self._wanted = Wanted(0, {})
        self._error = ""
        self._news = True
        for name, lever in self._levers.items():
            if lever.why_not:
                log.info("tailwright: %s is not live: %s", name, lever.why_not)
        self.look()

    @property
    def live(self) -> "list[str]":
        return [name for name, lever in self._levers.items() if not lever.why_not]

    def look(self, look_again: bool = False) -> None:
        """Take up the knob file if it has changed, and tell; `look_again`: also where what was told has vanished."""
        news = self._file.news(_OF_NO_MATTER) if self.live else None
        if isinstance(news, Wanted):
            self._apply(news)
            self._news = True
        elif news is not None:
            self._error = f"{self._file.path.name}: {news}"
            log.warning("tailwright: %s; the queue limits stay", self._error)
            self._news = True
        if self._news or (look_again and not self._effective.exists()):
            self._write()

    def follow(self) -> None:
        """For ever, in a thread of its own."""
        wakings = 0
        while True:
            time.sleep(POLL_S)
            wakings += 1
            try:
                self.look(wakings % _CHECK_EVERY == 0)
            except Exception as error:  # noqa: BLE001 - the thread lives as long as vLLM.
                surprises.note("queue_limits", "the queue limits could not be followed", error)

    def _apply(self, wanted: Wanted) -> None:
        self._error = ""
        self._wanted = wanted
        for name, value in wanted.queue_limits.items():
            self._levers[name].try_move(value)

    def _write(self) -> None:
        told = {
            "limits": {
                name: {"runs": lever.read(), "started": self._started[name], "why_not": lever.why_not}
                for name, lever in self._levers.items()
            },
            "revision": self._wanted.revision,
            "asked": self._wanted.asked,
            "error": self._error,
            "process": PROCESS,
            "time": self._clock(),
            "pid": os.getpid(),
            "plugin": __version__,
        }
        try:
            self._effective.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._effective, json.dumps(told).encode())
            self._news = False
        except OSError as error:
            surprises.note(QUEUE_LIMITS, f"{self._effective} cannot be written", error)
