"""Heads in a file: only added, each on the disk, whatever a crash has left there."""

import json
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controlplane import ledger
from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from controlplane.ledger import inspection, signing
from controlplane.ledger.head_file import HeadFile, heads_in

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = b"k" * 32


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'l.db'}")
    upgrade(made)
    yield made
    made.close()


def act(database: Database) -> None:
    with database.session() as session:
        ledger.append(session, NOW, "me", "a.b", "a/1", "done")


def test_each_new_head_is_a_line(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "heads"
    file = HeadFile(database, path, KEY)
    for minute in range(4):
        if minute != 2:
            act(database)
        file.keep(NOW + timedelta(minutes=minute))
    heads, wrong = heads_in(path)
    assert ([head.id for head in heads], wrong) == ([1, 2, 3], 0)
    assert all(signing.is_signed(head, KEY) for head in heads)
    assert [json.loads(line)["time"][14:16] for line in path.read_text().splitlines()] == ["00", "01", "03"]
    assert inspection.newest(database).hash == heads[-1].hash
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_process_goes_on_and_what_was_cut_off_stands_alone(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "heads"
    act(database)
    HeadFile(database, path, KEY).keep(NOW)
    path.write_bytes(path.read_bytes() + b'{"time":"2026')
    act(database)
    HeadFile(database, path, KEY).keep(NOW)
    heads, wrong = heads_in(path)
    assert ([head.id for head in heads], wrong) == ([1, 2], 1)


def test_a_link_is_not_followed_and_a_failure_is_tried_again(database: Database, tmp_path: Path) -> None:
    path, other = tmp_path / "heads", tmp_path / "other"
    other.write_text("keep\n")
    path.symlink_to(other)
    file = HeadFile(database, path, KEY)
    with pytest.raises(OSError, match="symbolic link"):
        file.keep(NOW)
    assert other.read_text() == "keep\n"
    path.unlink()
    file.keep(NOW)
    assert len(heads_in(path)[0]) == 1
