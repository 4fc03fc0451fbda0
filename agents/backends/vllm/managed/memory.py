"""Host memory: what a standby would need, and what is free.

Guarantee: what cannot be read is None with the reason, never a guess. Where a GPU is present, host memory says nothing
about whether a second server fits, so only the node file's own figure counts.
"""

from collections.abc import Iterable
from pathlib import Path

import psutil

from agents.backends.vllm.managed.change_plan import Room
from agents.host.host_memory import proportional_bytes

STANDBY_SHARE = 1.1
"""A server that starts needs a little more than one that has settled."""
_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd")


def room(needs_bytes: int | None, pids: Iterable[int]) -> Room:
    """For a standby beside the server with these processes; `needs_bytes` is the node file's figure."""
    free = psutil.virtual_memory().available
    if needs_bytes is not None:
        return Room(needs_bytes, free)
    if any(Path(device).exists() for device in _DEVICES):
        return Room(None, free, "the server uses a GPU, whose free memory is not known here")
    used = proportional_bytes(pids)
    if not used:
        return Room(None, free, "the memory of the running server cannot be read")
    return Room(round(used * STANDBY_SHARE), free)
