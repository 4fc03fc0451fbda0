"""The control group (container) that a process is in: CPU quota and throttling, memory limit and kills, v1 and v2.

Guarantee: limits and throttling are those of the nearest group upwards that has a quota; the memory share left is that
of the tightest limit on the way up. What a group does not tell is None.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes "no limit" as the largest multiple of a page, near 2**63."""
CONTROLLERS = ("cpu", "memory")


@dataclass(frozen=True)
class Throttling:
    """Since the group was made: quota periods that ended, and those in which the quota ran out; the quota in cores."""

    periods: int
    throttled: int
    quota_cpus: float


@dataclass(frozen=True)
class Groups:
    """The folders of a process's groups, its own first, up to the root, by controller; `pressure`: where PSI is."""

    folders: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    pressure: Path | None = None


def parse_membership(text: str) -> dict[str, str]:
    """/proc/PID/cgroup as controller to path; version 2 has the controller ""."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def parse_flat(text: str) -> dict[str, int]:
    """`name value` lines, as in cpu.stat and memory.events."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines() if line.count(" ") == 1)}


def parse_cpu_max(text: str) -> float | None:
    """Version 2's `quota period` in cores, None where there is no quota."""
    quota, period = text.split()
    return None if quota == "max" else int(quota) / int(period)


def groups_of(pid: int, proc: Path, mount: Path) -> Groups:
    """Where the groups of a process are; empty for a process that is gone or in a name space we do not see into."""
    try:
        membership = parse_membership((proc / str(pid) / "cgroup").read_text())
    except (OSError, ValueError):
        return Groups()
    unified = mount if (mount / "cgroup.controllers").exists() else mount / "unified"
    own = _upwards(unified, membership.get(""))
    folders = {}
    for controller in CONTROLLERS:
        if controller in membership:
            folders[controller] = _upwards(mount / controller, membership[controller])
        else:
            folders[controller] = own
    # The root group's pressure is the host's: it is told as such.
    inside = own[0] if len(own) > 1 or (own and (own[0] / "cgroup.type").exists()) else None
    return Groups(folders, inside)


def throttling(groups: Groups) -> Throttling | None:
    """None where no group on the way up has a quota."""
    for folder in groups.folders.get("cpu", ()):
        quota_cpus = _quota_cpus(folder)
        if quota_cpus is not None:
            told = _flat(folder / "cpu.stat")
            if "nr_throttled" in told:
                return Throttling(told.get("nr_periods", 0), told["nr_throttled"], quota_cpus)
    return None


def memory_left(groups: Groups) -> float | None:
    """Share of the tightest memory limit that is left, page cache that can be dropped at once counted as free."""
    shares = []
    for folder, limit in _memory_limits(groups):
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if used is None:
            continue
        told = _flat(folder / "memory.stat")
        droppable = told.get("inactive_file", told.get("total_inactive_file", 0))
        shares.append(min(max((limit - used + droppable) / limit, 0.0), 1.0))
    return min(shares, default=None)


def memory_limit(groups: Groups) -> int | None:
    """The tightest memory limit on the way up, None where there is none."""
    return min((limit for _, limit in _memory_limits(groups)), default=None)


def _memory_limits(groups: Groups) -> Iterator[tuple[Path, int]]:
    """Each group on the way up that has one."""
    for folder in groups.folders.get("memory", ()):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        if limit is not None and limit < NO_LIMIT_BYTES:
            yield folder, limit


def kills(groups: Groups) -> int | None:
    """Processes of the group killed for want of memory, since it was made."""
    for folder in groups.folders.get("memory", ())[:1]:
        told = _flat(folder / "memory.events") or _flat(folder / "memory.oom_control")
        return told.get("oom_kill")
    return None


def _upwards(root: Path, path: str | None) -> tuple[Path, ...]:
    if path is None or ".." in path.split("/") or not root.is_dir():
        return ()
    parts = [part for part in path.split("/") if part]
    folders = [root.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
    # Inside a container the path may name folders of the host's that are not mounted here: the mount is the group.
    return tuple(folder for folder in folders if folder.is_dir())


def _quota_cpus(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            return parse_cpu_max((folder / "cpu.max").read_text())
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError):
        return None


def _flat(path: Path) -> dict[str, int]:
    try:
        return parse_flat(path.read_text())
    except (OSError, ValueError):
        return {}


def _number(path: Path) -> int | None:
    """None for what is absent, and for `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
