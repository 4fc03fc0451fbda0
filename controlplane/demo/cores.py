"""The processor cores that this process may use: by its affinity mask and its control group's quota."""

import os
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def cores(cpu_max: Path = CPU_MAX) -> float:
    """How many cores' time there is. A quota that cannot be read is none."""
    available = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = cpu_max.read_text().split()
    except (OSError, ValueError):
        return available
    return available if quota == "max" else min(available, int(quota) / int(period))


def warning(available: float) -> str:
    """What to say first where there are fewer than two cores; empty where there is nothing to say."""
    if available >= 2:
        return ""
    return (
        f"This machine gives the demo {available:.3g} of a core's time; the story is made for two. It takes about "
        "twice as long here, and every limit of time is twice as long."
    )
