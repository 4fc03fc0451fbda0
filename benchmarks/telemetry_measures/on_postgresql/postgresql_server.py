"""A throw-away PostgreSQL that keeps its promises, set as docs/telemetry.md advises; and what it uses, by role."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import psycopg

from benchmarks.engine_rivals.protocol import WorkerFailed, tail
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.proc_files import all_pids, cpu_s_of

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "lz4",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
}
_START_S, _STOP_S = 60, 60
BACKEND = "backends"


class Postgresql:
    """One cluster in a folder of its own. `close` ends it and removes the folder."""

    def __init__(self, cores: Collection[int], settings: Mapping[str, str] = SETTINGS) -> None:
        self._binaries, self._cores = _binaries(), cores
        # The server refuses to run as root: borrow its own user there. That user must be able to enter the folder.
        self._as_server = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="tailwright-bench-postgres-"))
        if self._as_server:
            shutil.chown(self.folder, "postgres")
        self._data, port = self.folder / "data", free_port()
        options = f"-p {port} -h {HOST} -k {self.folder} "
        options += " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run("initdb", "-D", self._data, "-U", "tailwright", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._options = options
        self._pid = 0
        self.start()
        self.url = f"postgresql+psycopg://tailwright@{HOST}:{port}/postgres"
        self._plain_url = f"postgresql://tailwright@{HOST}:{port}/postgres"
        self._roles: dict[int, str] = {}
        self._seen: dict[int, float] = {}

    def start(self) -> None:
        """And again, after `kill`: it recovers from its write-ahead log first."""
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self._data, "-l", log, "-w", "-t", _START_S, "-o", self._options, "start")
        self._pid = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])

    def signal(self, number: signal.Signals) -> None:
        """To all its processes, the first one among them."""
        for pid in self._all():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL to all its processes; returns when they are gone. `start` it again."""
        until = time.monotonic() + _STOP_S
        while self._all() and time.monotonic() < until:
            self.signal(signal.SIGKILL)
            time.sleep(0.02)
        # Where no init waits for orphans, the dead first process looks alive to the next one.
        for lock in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            lock.unlink(missing_ok=True)

    def _all(self) -> list[int]:
        """Those that work in its data folder: also one that was begun a moment ago, or whose parent is gone."""
        found = []
        for pid in all_pids():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cwd").readlink() == self._data and _runs(pid):
                    found.append(pid)
        return found

    @property
    def version(self) -> str:
        told = subprocess.run([self._binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return told.stdout.split()[2]

    def cpu_s(self) -> Counter[str]:
        """CPU seconds by role, of all its processes ever seen here: ask often, or one that ends between is missed."""
        for pid in all_pids():
            if pid == self._pid or _parent(pid) == self._pid:
                self._roles.setdefault(pid, _role(pid))
                self._seen[pid] = max(cpu_s_of(pid), self._seen.get(pid, 0.0))
        found: Counter[str] = Counter()
        for pid, seconds in self._seen.items():
            found[self._roles[pid]] += seconds  # type: ignore[assignment]  # Seconds may be counted, too.
        return found

    def wal_bytes(self) -> int:
        """Written to the write-ahead log since it was made."""
        return self._ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")

    def waiting_rows(self) -> int:
        """Commits that are not folded yet."""
        return self._ask("SELECT count(*) FROM telemetry_pending")

    def bytes(self) -> int:
        """Of the data folder, its write-ahead log included."""
        return sum(path.stat().st_size for path in self._data.rglob("*") if path.is_file())

    def close(self) -> None:
        stop = [*self._as_server, str(self._binaries / "pg_ctl"), "-D", str(self._data), "-t", str(_STOP_S), "-m"]
        for mode in ("fast", "immediate"):
            done = subprocess.run(
                [*stop, mode, "stop"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                check=False,
            )
            if not done.returncode:
                break
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, query: str) -> int:
        with psycopg.connect(self._plain_url, connect_timeout=_START_S) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def _bind(self) -> None:
        os.sched_setaffinity(0, self._cores)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as_server, str(self._binaries / program), *map(str, arguments)]
        # A pipe would be kept open by the server that pg_ctl leaves behind.
        with (self.folder / "start.log").open("ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, cwd=self.folder, check=False, preexec_fn=self._bind)
        if done.returncode:
            told = "\n".join(
                tail(str(self.folder / name)) for name in ("start.log", "log") if (self.folder / name).exists()
            )
            raise WorkerFailed(f"PostgreSQL does not start here: {told}")


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parent.parent.name)
    if not found:
        raise WorkerFailed("no PostgreSQL server is installed: deploy/test_packages.sh installs one")
    return found[-1].parent


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _runs(pid: int) -> bool:
    """Dead ones count as gone though nobody has waited for them."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def _role(pid: int) -> str:
    """As the process names itself: "postgres: walwriter", "postgres: USER DATABASE HOST(PORT) ..."."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return BACKEND
    name = title.partition("postgres: ")[2].strip()
    if not name:
        return "postmaster"
    return BACKEND if name.startswith("tailwright ") else name
