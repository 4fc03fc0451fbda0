"""A made-up /proc and /sys/fs/cgroup, written file by file."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str], None]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    return tmp_path / "proc"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    (tmp_path / "cgroup").mkdir()
    return tmp_path / "cgroup"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put text into a file below the test's folder: `proc/stat`, `cgroup/cpu.max`."""

    def put(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return put
