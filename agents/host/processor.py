"""CPU time of the whole machine, from /proc/stat.

Guarantee: guest time, which the kernel counts within user time too, is counted once; waiting for I/O is idle time.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessorTimes:
    """Clock ticks since the machine's start, over all CPUs; `running`: tasks that run or wait for a CPU now."""

    busy: int
    steal: int
    total: int
    cpus: int
    running: int


def parse(text: str) -> ProcessorTimes:
    """Raises ValueError for what is not the content of /proc/stat."""
    busy = steal = total = running = cpus = 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "cpu":
            user, nice, system, idle, waiting, interrupt, soft, *more = (int(field) for field in rest.split())
            steal = more[0] if more else 0
            busy = user + nice + system + interrupt + soft
            total = busy + steal + idle + waiting
        elif name.startswith("cpu"):
            cpus += 1
        elif name == "procs_running":
            running = int(rest)
    if not total or not cpus:
        raise ValueError("/proc/stat has no line of CPU times")
    return ProcessorTimes(busy, steal, total, cpus, running)


def read(proc: Path) -> ProcessorTimes | None:
    """None where the machine does not tell (not Linux)."""
    try:
        return parse((proc / "stat").read_text())
    except (OSError, ValueError):
        return None
