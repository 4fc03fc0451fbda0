"""What of this plugin works in this vLLM, and why the rest does not: said once in the log, and in plugin.json.

The agent reads plugin.json to tell its users why raw statistics or live limits are missing.
"""

import json
import os
import secrets
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tailwright_vllm import __version__
from tailwright_vllm.folder import PLUGIN, write_atomically
from tailwright_vllm.surprises import log, surprises

TRIED = ("0.28.0", "0.32.0")
"""Releases this plugin was run with; VERSIONS.md says what was seen."""
SCHEDULER = "tailwright_vllm.scheduler.live_scheduler"

PROCESS = secrets.token_hex(8)
"""Names this process in its files: process ids come back, in containers at each start."""

_said: set[str] = set()


def vllm_version() -> str:
    """This vLLM's release, as far as it tells."""
    told = getattr(sys.modules.get("vllm"), "__version__", None)
    if isinstance(told, str):
        return told
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "unknown"


def tried(release: str) -> bool:
    """Local version parts, such as +cpu, make no difference."""
    return release.split("+")[0] in TRIED


def greet() -> None:
    """One line a process on which vLLM this is."""
    if _said:
        return
    release = vllm_version()
    _said.add(release)
    if tried(release):
        log.info("tailwright: plugin %s, vLLM %s", __version__, release)
    else:
        log.warning(
            "tailwright: plugin %s was tried with vLLM %s, this is %s; what it does not know of it stays off",
            __version__,
            ", ".join(TRIED),
            release,
        )


class Installation:
    """plugin.json of one folder."""

    def __init__(self, folder: Path, scheduler_cls: Any, api_servers: int = 1) -> None:
        self.path = folder / PLUGIN
        self.api_servers = api_servers
        self._raw: dict[str, Any] = {"on": False, "why": "not started yet", "details": False}
        named = scheduler_cls if isinstance(scheduler_cls, str) else getattr(scheduler_cls, "__name__", None)
        self.limits_live = named is not None and str(named).startswith("tailwright_vllm.")
        self._limits = {
            "on": self.limits_live,
            "why": ""
            if self.limits_live
            else f"vLLM was started without --scheduler-cls {SCHEDULER} (it has {named or 'its own'})",
        }

    def raw_statistics(self, on: bool, why: str = "", *, details: bool = False) -> None:
        """Tell that raw statistics are there or not. `details`: with each request's own label and clock marks."""
        self._raw = {"on": on, "why": why, "details": details}
        self.tell()

    def tell(self) -> None:
        release = vllm_version()
        told = {
            "plugin": __version__,
            "vllm": release,
            "tried": tried(release),
            "pid": os.getpid(),
            "process": PROCESS,
            "time": time.time(),
            "raw_statistics": self._raw,
            "live_limits": self._limits,
        }
        try:
            write_atomically(self.path, json.dumps(told).encode())
        except OSError as error:
            surprises.note(PLUGIN, f"{self.path} cannot be written", error)
