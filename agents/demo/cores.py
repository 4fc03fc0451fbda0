"""The processor cores that this process may use, by its affinity mask and its control group's quota; and what of them
nobody uses."""

import os
import time
from collections.abc import Callable
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
STAT = Path("/proc/stat")
LOOK_S = 1.0


def cores(cpu_max: Path = CPU_MAX) -> float:
    """How many cores' time there is. A quota that cannot be read is none."""
    available = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = cpu_max.read_text().split()
    except (OSError, ValueError):
        return available
    return available if quota == "max" else min(available, int(quota) / int(period))


def idle_cores(stat: Path = STAT, sleep: Callable[[float], object] = time.sleep) -> float:
    """How much of those cores' time nobody used in the last second (proc(5): idle and iowait, which is idle too)."""
    before = _idle_and_all(stat)
    sleep(LOOK_S)
    idle, total = (now - then for now, then in zip(_idle_and_all(stat), before, strict=True))
    mine = len(os.sched_getaffinity(0))
    return mine * idle / total if total else float(mine)


def _idle_and_all(stat: Path) -> tuple[int, int]:
    """Ticks of the cores of the affinity mask."""
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = [[int(word) for word in line.split()[1:9]] for line in stat.read_text().splitlines() if _name(line) in mine]
    return sum(core[3] + core[4] for core in ticks), sum(map(sum, ticks))


def _name(line: str) -> str:
    return line.partition(" ")[0]


def warning(available: float) -> str:
    """What to say first where there are fewer than two cores; empty where there is nothing to say."""
    if available >= 2:
        return ""
    return (
        f"This machine gives the demo {available:.3g} of a core's time; the story is made for two. It takes about "
        "twice as long here, and every limit of time is twice as long."
    )
