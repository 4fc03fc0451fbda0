"""Low is a small share of a small disk, and a quarter of a gigabyte of a large one."""

import logging
from pathlib import Path

import pytest

from controlplane.db.database import Database
from controlplane.db.disk_space import DiskSpace, Space, space_of

MB, GB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("free", "total", "low"),
    [
        (255 * MB, 1000 * GB, True),
        (257 * MB, 1000 * GB, False),
        (1 * MB, 24 * MB, True),
        (2 * MB, 24 * MB, False),
        (0, 0, False),
    ],
)
def test_low(free: int, total: int, low: bool) -> None:
    assert Space(free, total).low is low


def test_it_is_logged_when_it_begins_and_when_it_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen = [Space(free * GB // 100, GB) for free in (50, 1, 1, 50, 50, 1)]
    disk = DiskSpace(Database(f"sqlite:///{tmp_path / 'a.db'}"), lambda _: seen.pop(0))
    with caplog.at_level(logging.INFO):
        assert [disk.low() for _ in range(6)] == [False, True, True, False, False, True]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_folder_that_cannot_be_looked_at_is_not_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = DiskSpace(Database(f"sqlite:///{tmp_path / 'gone' / 'a.db'}"))
    assert (disk.look(), disk.low(), disk.free_bytes()) == (None, False, None)
    assert "cannot be read" in caplog.text


def test_of_a_server_nothing_is_known() -> None:
    assert DiskSpace(Database("postgresql+psycopg://nobody@127.0.0.1:9/none")).look() is None


def test_the_real_one(tmp_path: Path) -> None:
    space = space_of(tmp_path)
    assert 0 <= space.free_bytes <= space.total_bytes
