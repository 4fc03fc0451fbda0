"""The clock that counts from the machine's start: time asleep is in it, and nobody can set it.

It says nothing across a restart of the machine, and is another one on another machine: readings carry the kernel's
identity of the boot that they belong to.
"""

import secrets
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class BootTime:
    """`at_s` seconds after the start of the boot `boot`."""

    boot: str
    at_s: float


def since_boot_s() -> float:
    """The clock that processes' starts are told in, too."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def boot_time() -> BootTime:
    """Now."""
    return BootTime(_boot(), since_boot_s())


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return secrets.token_hex(16)  # Not Linux: what another process has kept is of another boot.
