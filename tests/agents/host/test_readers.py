"""Each reader on what real kernels write, and on what is not there."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host import listener, pressure, process, processor
from agents.host.host_memory import available_share, proportional_bytes

Write = Callable[[str, str], None]

STAT = """cpu  34198 12 8639 87254 772 5 139 168 90 0
cpu0 11604 0 2346 51347 185 0 27 79 0 0
cpu1 22594 0 6292 35907 587 0 112 89 0 0
intr 340538 0 0
ctxt 487887
procs_running 3
procs_blocked 0
"""
PROCESS = "4242 (a (b) c) S 41 4242 4242 0 -1 4194560 9 0 77 0 250 50 0 0 20 0 6 0 123456 1059440 100 18446744"


def test_pressure_is_the_total_of_some(proc: Path, write: Write) -> None:
    write("proc/pressure/cpu", "some avg10=2.41 avg60=1.82 avg300=1.25 total=13277562\nfull avg10=0.00 total=7\n")
    write("proc/pressure/io", "some avg10=0.92 avg60=0.61 avg300=0.58 total=9\n")
    assert pressure.of_host(proc) == {"cpu": 13277562, "io": 9}
    assert pressure.of_host(proc / "nothing") == {} and pressure.of_group(None) == {}


def test_guest_time_is_counted_once_and_waiting_for_io_is_idle() -> None:
    found = processor.parse(STAT)
    assert found.busy == 34198 + 12 + 8639 + 5 + 139
    assert (found.steal, found.cpus, found.running) == (168, 2, 3)
    assert found.total == found.busy + 168 + 87254 + 772


def test_what_is_not_there_is_none(proc: Path) -> None:
    assert processor.read(proc) is None and process.read(7, proc) is None
    assert process.waits(7, proc) == {} and listener.listeners(80, proc) == []
    with pytest.raises(ValueError, match="no line of CPU times"):
        processor.parse("")


def test_memory_available_is_a_share(proc: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))
    with warnings.catch_warnings(action="ignore"):  # That the made-up file lacks other lines.
        assert available_share() == 0.25


def test_memory_of_processes_counts_those_that_live() -> None:
    nobody = 2**22 + 1  # Above the largest number that Linux gives a process.
    assert proportional_bytes([os.getpid(), nobody]) > 2**20
    assert proportional_bytes([nobody]) == 0


def test_resident_memory_where_shared_pages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    assert proportional_bytes([os.getpid()]) == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)


def test_a_name_with_brackets_does_not_shift_the_fields() -> None:
    found = process.parse_stat(PROCESS)
    assert (found.identity, found.parent, found.cpu_ticks, found.major_faults) == ((4242, 123456), 41, 300, 77)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\n"), max_size=15))
def test_any_name_of_a_process_is_read(name: str) -> None:
    assert process.parse_stat(PROCESS.replace("a (b) c", name)).identity == (4242, 123456)


def test_threads_wait_and_are_switched_each_by_itself(proc: Path, write: Write) -> None:
    for thread, (ran, waited, switched) in {10: (5, 6, 7), 11: (1, 2, 3)}.items():
        write(f"proc/10/task/{thread}/schedstat", f"{ran} {waited} 99\n")
        write(
            f"proc/10/task/{thread}/status",
            f"Name:\tx\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t{switched}\n",
        )
    (proc / "10/task/12").mkdir()  # It has ended meanwhile.
    assert process.waits(10, proc) == {10: (5, 6, 7), 11: (1, 2, 3)}


def test_the_tree_is_all_that_any_thread_started(proc: Path, write: Write) -> None:
    write("proc/10/task/10/children", "20 ")
    write("proc/10/task/11/children", "30 ")
    write("proc/20/task/20/children", "21 22 ")
    assert sorted(process.tree([10], proc)) == [10, 20, 21, 22, 30]
    assert process.tree([], proc) == []


def test_the_listener_is_found_by_its_socket(proc: Path, write: Write) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   {n}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"
    write("proc/net/tcp", head + row.format(n=0, port=7400, state="0A", inode=555))
    write("proc/net/tcp6", head + row.format(n=0, port=7400, state="01", inode=666))
    for pid, inode in ((10, 555), (11, 666), (12, 777)):
        (proc / f"{pid}/fd").mkdir(parents=True)
        (proc / f"{pid}/fd/3").symlink_to(f"socket:[{inode}]")
    assert listener.listeners(7400, proc) == [10]
    assert listener.listeners(7401, proc) == []


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:7400", 7400),
        ("http://localhost", 80),
        ("https://[::1]:1/", 1),
        ("http://engine.example:7400", None),
    ],
)
def test_only_an_engine_of_this_host_is_looked_for(url: str, port: int | None) -> None:
    assert listener.port_of(url) == port
