"""Quota, throttling, memory and kills of a control group, in both versions and in between."""

from collections.abc import Callable
from pathlib import Path

from agents.host.control_group import (
    Groups,
    Throttling,
    groups_of,
    kills,
    memory_left,
    memory_limit,
    parse_cpu_max,
    throttling,
)

Write = Callable[[str, str], None]


def test_version_2_takes_the_nearest_quota_and_the_tightest_memory(proc: Path, groups: Path, write: Write) -> None:
    write("proc/10/cgroup", "0::/pod/engine\n")
    write("cgroup/cgroup.controllers", "cpu memory")
    write("cgroup/pod/cpu.max", "150000 100000\n")
    write("cgroup/pod/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 41\nthrottled_usec 9\n")
    write("cgroup/pod/memory.max", "1000\n")
    write("cgroup/pod/memory.current", "900\n")
    write("cgroup/pod/memory.stat", "anon 1\ninactive_file 50\n")
    write("cgroup/pod/engine/cpu.max", "max 100000\n")
    write("cgroup/pod/engine/memory.max", "2000\n")
    write("cgroup/pod/engine/memory.current", "100\n")
    write("cgroup/pod/engine/memory.events", "low 0\noom_kill 2\n")
    write("cgroup/pod/engine/cpu.pressure", "some avg10=0 total=77\n")
    found = groups_of(10, proc, groups)
    assert throttling(found) == Throttling(100, 41, 1.5)
    assert memory_left(found) == 0.15
    assert memory_limit(found) == 1000
    assert kills(found) == 2
    assert found.pressure == groups / "pod/engine"


def test_version_1_has_a_folder_for_each_controller(proc: Path, groups: Path, write: Write) -> None:
    write("proc/10/cgroup", "4:memory:/m\n1:cpu,cpuacct:/e\n0::/\n")
    (groups / "unified").mkdir()
    write("cgroup/cpu/e/cpu.cfs_quota_us", "20000\n")
    write("cgroup/cpu/e/cpu.cfs_period_us", "100000\n")
    write("cgroup/cpu/e/cpu.stat", "nr_periods 50\nnr_throttled 10\nthrottled_time 99\n")
    write("cgroup/memory/m/memory.limit_in_bytes", "1000\n")
    write("cgroup/memory/m/memory.usage_in_bytes", "990\n")
    write("cgroup/memory/m/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    write("cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    write("cgroup/memory/memory.usage_in_bytes", "5000\n")
    found = groups_of(10, proc, groups)
    assert throttling(found) == Throttling(50, 10, 0.2)
    assert memory_left(found) == 0.01
    assert memory_limit(found) == 1000
    assert kills(found) == 3
    assert found.pressure is None  # Its group of version 2 is the root: that pressure is the host's.


def test_without_quota_or_limit_there_is_nothing_to_tell(proc: Path, groups: Path, write: Write) -> None:
    write("proc/10/cgroup", "0::/\n")
    write("cgroup/cgroup.controllers", "cpu memory")
    found = groups_of(10, proc, groups)
    assert (throttling(found), memory_left(found), kills(found)) == (None, None, None)
    assert memory_limit(found) is None
    assert groups_of(11, proc, groups) == Groups()
    assert parse_cpu_max("max 100000") is None


def test_a_group_outside_the_name_space_is_not_guessed_at(proc: Path, groups: Path, write: Write) -> None:
    write("proc/10/cgroup", "0::/../../other\n")
    write("cgroup/cgroup.controllers", "cpu")
    write("cgroup/cpu.max", "10000 100000")
    assert throttling(groups_of(10, proc, groups)) is None


def test_a_path_that_is_not_mounted_falls_back_to_the_mount(proc: Path, groups: Path, write: Write) -> None:
    write("proc/10/cgroup", "0::/kubepods/pod1/c1\n")
    write("cgroup/cgroup.controllers", "cpu")
    write("cgroup/cpu.max", "50000 100000")
    write("cgroup/cpu.stat", "nr_periods 4\nnr_throttled 1\n")
    assert throttling(groups_of(10, proc, groups)) == Throttling(4, 1, 0.5)
