"""Host memory, as Linux tells it: what a standby would need, and what is free.

Guarantee: what cannot be read is None with the reason, never a guess. Where a GPU is present, host memory says nothing
about whether a second server fits, so only the node file's own figure counts.
"""

from collections.abc import Iterable
from pathlib import Path

from agents.backends.vllm.managed.change_plan import Room

STANDBY_SHARE = 1.1
"""A server that starts needs a little more than one that has settled."""
_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd")


def room(needs_bytes: int | None, pids: Iterable[int], proc: Path = Path("/proc")) -> Room:
    """For a standby beside the server with these processes; `needs_bytes` is the node file's figure."""
    free = free_bytes(proc)
    if free is None:
        return Room(needs_bytes, None, f"{proc}/meminfo does not tell the free memory")
    if needs_bytes is not None:
        return Room(needs_bytes, free)
    if any(Path(device).exists() for device in _DEVICES):
        return Room(None, free, "the server uses a GPU, whose free memory is not known here")
    used = used_bytes(pids, proc)
    if not used:
        return Room(None, free, "the memory of the running server cannot be read")
    return Room(round(used * STANDBY_SHARE), free)


def free_bytes(proc: Path = Path("/proc")) -> int | None:
    """MemAvailable (proc(5)): what can be used without swapping."""
    return _kibibytes(proc / "meminfo", "MemAvailable:")


def used_bytes(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Memory of these processes, shared pages counted once among them (Pss); resident memory where that is refused."""
    total = 0
    for pid in pids:
        pss = _kibibytes(proc / str(pid) / "smaps_rollup", "Pss:")
        total += pss if pss is not None else _kibibytes(proc / str(pid) / "status", "VmRSS:") or 0
    return total


def _kibibytes(path: Path, name: str) -> int | None:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
