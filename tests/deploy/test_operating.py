"""The commands of the drill in docs/operating.md do what the page says, as they stand there."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import answers, free_port, wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operating.md"


def commands(heading: str) -> list[str]:
    """The indented lines below a heading, without their remarks."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line[4:].split(" # ")[0].strip() for line in section.splitlines() if line.startswith("    ")]


class Shell:
    """Runs a page's lines in one folder; `tailwright up` goes to the background, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._service: subprocess.Popen[bytes] | None = None

    def run(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", line],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, line: str, port: int) -> None:
        with (self.folder / "log").open("ab") as log:
            self._service = subprocess.Popen(shlex.split(line), cwd=self.folder, env=self._environment, stderr=log)
        wait_for("ready", lambda: answers(f"http://127.0.0.1:{port}/readyz"))

    def stop(self) -> None:
        if self._service is not None:
            self._service.terminate()
            assert self._service.wait(30) == 0
            self._service = None


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.stop()


@pytest.mark.slow
def test_the_drill(shell: Shell) -> None:
    port = free_port()
    lines = [line.replace("7399", str(port)) for line in commands("Backup and restore")]
    first = f"tailwright up --data-dir D --port {port} --no-tuner --no-dashboard"
    assert [line.split()[:3] for line in lines if "store" in line] == [
        ["tailwright", "store", word] for word in ("backup", "restore", "verify")
    ]
    shell.start(first, port)
    told = ""
    for line in lines:
        if line.startswith("mkdir"):
            shell.stop()
        if line.startswith("tailwright up"):
            shell.start(line, port)
        else:
            told += shell.run(line)
    assert "BAD" not in told and "No node yet." in told
    ours, theirs = (sorted(path.name for path in (shell.folder / name).glob("*-*")) for name in ("D", "D2"))
    assert [name for name in ours if "tailwright.db" not in name] == [
        name for name in theirs if "tailwright.db" not in name
    ]
