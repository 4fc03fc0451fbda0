"""Host faults that can truly be made on a machine with control groups (v1, root), each undone by leaving its context.

Guarantee: what an injection starts or limits is gone when its context ends, whatever happened within.
"""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SPIN = "while True: pass"
FORKS = "import subprocess\nwhile True: subprocess.run(['/bin/true'])"
COLD_MIB = 512
READ = (
    "import mmap, random\n"
    "file = open({path!r}, 'rb'); pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
    "while True: pages[random.randrange(len(pages))]"
)
PACKETS = (
    "import socket\n"
    "a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n"
    "b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); data = bytes(1400)\n"
    "while True: b.sendto(data, a.getsockname())"
)


class Groups:
    """One CPU control group for each node's engine, and one for a neighbour; removed by `close`."""

    def __init__(self, name: str) -> None:
        self._root = CONTROL_GROUPS / "cpu" / name
        self._root.mkdir()
        self.neighbour = self._made("neighbour")

    def _made(self, name: str) -> Path:
        folder = self._root / name
        folder.mkdir()
        return folder

    def contain(self, node: str, pids: Sequence[int]) -> Path:
        """Put an engine into a group of its own, without a quota."""
        folder = self._made(node)
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
        return folder

    def close(self) -> None:
        """Ends nothing: whoever is still in a group goes back to the root's."""
        for folder in (*self._root.iterdir(), self._root):
            if folder.is_dir():
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):
                        (CONTROL_GROUPS / "cpu" / "cgroup.procs").write_text(pid)
                folder.rmdir()


@contextlib.contextmanager
def _children(program: str, count: int, group: Path | None = None, nice: int = 0) -> Iterator[None]:
    before = ["nice", "-n", str(nice)] if nice else []
    children = [subprocess.Popen([*before, sys.executable, "-c", program]) for _ in range(count)]
    try:
        if group is not None:
            for child in children:
                (group / "cgroup.procs").write_text(str(child.pid))
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def busy_processes(count: int) -> AbstractContextManager[None]:
    """Processes of somebody else's that compute, at a somewhat higher priority than the engine has.

    At the engine's own they would be lost among what else runs on a shared machine.
    """
    return _children(SPIN, count, nice=-5)


@contextlib.contextmanager
def heavy_neighbour(groups: Groups, shares: int, count: int) -> Iterator[None]:
    """A container beside the engine's that has `shares` CPU shares, where an engine's has 1,024."""
    (groups.neighbour / "cpu.shares").write_text(str(shares))
    with _children(SPIN, count, groups.neighbour):
        yield


@contextlib.contextmanager
def quota(folders: Sequence[Path], cpus: float) -> Iterator[None]:
    """A CPU quota on the containers of engines, as a limit that somebody lowered."""
    try:
        for folder in folders:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(round(cpus * PERIOD_US)))
        yield
    finally:
        for folder in folders:
            (folder / "cpu.cfs_quota_us").write_text("-1")


def kernel_work(program: str, count: int) -> AbstractContextManager[None]:
    """Work that the kernel does for others, at a daemon's priority: packets through the loopback, or processes made."""
    return _children(program, count, nice=-10)


class SmallContainer:
    """A memory control group whose engine has code pages of its own, so that a limit can push them out.

    The page cache of a file belongs to the group that read it first: the engine is given a copy of torch that nobody
    else has read. Without swap this is how a limit hurts: code pushed out is read again from the disk. `squeeze`
    leaves `spare_bytes` beside the engine's own memory while another process of the container reads a large file.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.group = CONTROL_GROUPS / "memory" / name
        self.group.mkdir()
        # What would be killed waits instead, until the limit is lifted.
        (self.group / "memory.oom_control").write_text("1")
        torch = importlib.util.find_spec("torch")
        assert torch is not None and torch.origin is not None
        self.libraries = folder / "libraries"
        shutil.copytree(Path(torch.origin).parent, self.libraries / "torch")
        self._cold = folder / "cold"
        with self._cold.open("wb") as file:
            for _ in range(COLD_MIB):
                file.write(os.urandom(1 << 20))
        os.sync()
        for path in (self._cold, *self.libraries.rglob("*")):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """What this process starts meanwhile is in the container, with the container's libraries."""
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(self.libraries)
        (self.group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (CONTROL_GROUPS / "memory" / "cgroup.procs").write_text(str(os.getpid()))
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before

    @contextlib.contextmanager
    def squeeze(self, spare_bytes: int, readers: int) -> Iterator[None]:
        try:
            with _children(READ.format(path=str(self._cold)), readers, self.group):
                time.sleep(1.0)  # What the readers need for themselves is not to be taken from the engine.
                told = dict(line.split() for line in (self.group / "memory.stat").read_text().splitlines())
                limit = int(told["total_rss"]) + spare_bytes
                for _ in range(5):  # Refused while there is more than can be pushed out at once.
                    with contextlib.suppress(OSError):
                        (self.group / "memory.limit_in_bytes").write_text(str(limit))
                        break
                yield
                (self.group / "memory.limit_in_bytes").write_text("-1")
        finally:
            (self.group / "memory.limit_in_bytes").write_text("-1")

    def close(self) -> None:
        for pid in (self.group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (CONTROL_GROUPS / "memory" / "cgroup.procs").write_text(pid)
        self.group.rmdir()


def is_possible() -> str:
    """Why not, or an empty text."""
    if os.geteuid() != 0 or not (CONTROL_GROUPS / "cpu" / "cpu.cfs_quota_us").parent.is_dir():
        return "wants root and control groups of version 1 at /sys/fs/cgroup"
    return ""
