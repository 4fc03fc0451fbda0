"""A throw-away PostgreSQL that keeps its promises: fsync and synchronous_commit as they come."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from benchmarks.engine_rivals.protocol import WorkerFailed, tail
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.proc_files import all_pids, cpu_s_of

_START_S = 60


class Postgresql:
    """One cluster in a folder of its own. `close` ends it and removes the folder."""

    def __init__(self, cores: Collection[int], connections: int = 200) -> None:
        self._binaries, self._cores = _binaries(), cores
        # The server refuses to run as root: borrow its own user there. That user must be able to enter the folder.
        self._as_server = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="trimtab-bench-postgres-"))
        if self._as_server:
            shutil.chown(self.folder, "postgres")
        self._data, port = self.folder / "data", free_port()
        options = f"-p {port} -h {HOST} -k {self.folder} -c max_connections={connections} -c shared_buffers=256MB"
        options += " -c max_wal_size=4GB"
        self._run("initdb", "-D", self._data, "-U", "trimtab", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "-t", _START_S, "-o", options, "start")
        self.url = f"postgresql+psycopg://trimtab@{HOST}:{port}/postgres"
        self._pid = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])

    @property
    def version(self) -> str:
        told = subprocess.run([self._binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return told.stdout.split()[2]

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds of each of its processes; one that has ended is missing."""
        return {pid: cpu_s_of(pid) for pid in all_pids() if pid == self._pid or _parent(pid) == self._pid}

    def bytes(self) -> int:
        """Of the data folder, its write-ahead log included."""
        return sum(path.stat().st_size for path in self._data.rglob("*") if path.is_file())

    def close(self) -> None:
        stop = [*self._as_server, str(self._binaries / "pg_ctl"), "-D", str(self._data), "-m", "fast", "stop"]
        subprocess.run(stop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _bind(self) -> None:
        os.sched_setaffinity(0, self._cores)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as_server, str(self._binaries / program), *map(str, arguments)]
        # A pipe would be kept open by the server that pg_ctl leaves behind.
        with (self.folder / "start.log").open("ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, cwd=self.folder, check=False, preexec_fn=self._bind)
        if done.returncode:
            raise WorkerFailed(f"PostgreSQL does not start here: {tail(str(self.folder / 'start.log'))}")


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
