"""What survives a power cut: the replay by hand-made records, and the recorder under a real process."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.power_loss.disk import SECTOR, Cut, Record, after_power_loss
from benchmarks.power_loss.recording import Recording

pytestmark = pytest.mark.slow

FOLDER = Path("/watched")


def opened(number: int, file: int, name: str) -> Record:
    return Record("O", number, file, 0, str(FOLDER / name).encode())


def written(number: int, file: int, offset: int, data: bytes) -> Record:
    return Record("W", number, file, offset, data)


def synced(number: int, file: int, reached: int) -> Record:
    return Record("S", number, file, reached, b"")


def folder_synced(number: int, reached: int) -> Record:
    return Record("D", number, 0, reached, str(FOLDER).encode())


def cut(disk: Path, records: list[Record], how: Cut = Cut.NOTHING, seed: int = 1) -> dict[str, bytes]:
    after_power_loss(disk, FOLDER, records, random.Random(seed), how)
    return {str(path.relative_to(disk)): path.read_bytes() for path in sorted(disk.rglob("*")) if path.is_file()}


def test_what_was_synced_is_there_and_the_rest_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old.")
    records = [
        opened(1, 7, "a"),
        written(2, 7, 4, b"synced"),
        synced(3, 7, 2),
        written(4, 7, 0, b"gone"),
        written(5, 7, 10, b"gone too"),
    ]

    assert cut(tmp_path, records) == {"a": b"old.synced"}


def test_a_write_during_the_sync_is_not_covered(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    records = [opened(1, 7, "a"), written(2, 7, 0, b"before"), written(3, 7, 6, b"during"), synced(4, 7, 2)]

    assert cut(tmp_path, records) == {"a": b"before"}


def test_a_sync_through_one_descriptor_covers_writes_through_another(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    records = [opened(1, 7, "a"), opened(2, 7, "a"), written(3, 7, 0, b"data"), synced(4, 7, 3)]

    assert cut(tmp_path, records) == {"a": b"data"}


def test_a_new_file_needs_its_folder_synced(tmp_path: Path) -> None:
    records = [opened(1, 7, "new"), written(2, 7, 0, b"data"), synced(3, 7, 2)]

    assert cut(tmp_path, records) == {}
    assert cut(tmp_path, [*records, folder_synced(4, 3)]) == {"new": b"data"}


def test_a_rename_that_was_not_synced_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"old")
    records = [
        opened(1, 8, "state.tmp"),
        written(2, 8, 0, b"new"),
        synced(3, 8, 2),
        Record("R", 4, 0, 0, b"\0".join(str(FOLDER / name).encode() for name in ("state.tmp", "state"))),
    ]

    assert cut(tmp_path, records) == {"state": b"old"}
    assert cut(tmp_path, [*records, folder_synced(5, 4)]) == {"state": b"new"}


def test_a_removal_that_was_not_synced_is_undone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"still here")
    removed = Record("U", 1, 0, 0, str(FOLDER / "a").encode())

    assert cut(tmp_path, [removed]) == {"a": b"still here"}
    assert cut(tmp_path, [removed, folder_synced(2, 1)]) == {}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("how", [Cut.TORN, Cut.SECTORS])
def test_later_writes_may_be_there_in_any_part_but_what_was_synced_always_is(
    tmp_path: Path, seed: int, how: Cut
) -> None:
    (tmp_path / "a").write_bytes(b"s" * SECTOR)
    records = [opened(1, 7, "a"), written(2, 7, SECTOR, b"t" * SECTOR), synced(3, 7, 2)]
    records += [written(4 + place, 7, (2 + place) * SECTOR, b"u" * SECTOR) for place in range(6)]

    found = cut(tmp_path, records, how, seed)["a"]

    assert found[: 2 * SECTOR] == b"s" * SECTOR + b"t" * SECTOR
    assert set(found[2 * SECTOR :]) <= {0, ord("u")}


def test_the_ways_to_cut_do_differ(tmp_path: Path) -> None:
    found = set()
    for seed in range(10):
        for how in Cut:
            disk = tmp_path / f"{how.value}-{seed}"
            disk.mkdir()
            (disk / "a").write_bytes(b"")
            records = [opened(1, 7, "a"), *(written(2 + place, 7, 100 * place, b"x" * 100) for place in range(10))]
            found.add(cut(disk, records, how, seed)["a"])

    assert len(found) > 10 and b"" in found


WRITER = """
import os, signal, sys
folder = sys.argv[1]
descriptor = os.open(folder + "/log", os.O_WRONLY | os.O_APPEND)
os.write(descriptor, b"synced ")
os.fsync(descriptor)
os.write(descriptor, b"not synced")
with open(folder + "/state.tmp", "wb") as file:
    file.write(b"new state")
    file.flush()
    os.fsync(file.fileno())
os.rename(folder + "/state.tmp", folder + "/state")
os.kill(os.getpid(), signal.SIGKILL)
"""

SQLITE = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/store.db", isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA synchronous=" + sys.argv[2])
for number in range(50):
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))
os.kill(os.getpid(), signal.SIGKILL)
"""

COUNT = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1] + "/store.db").execute("SELECT count(*) FROM numbers").fetchone()[0])
"""

CREATE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/store.db")
connection.execute("CREATE TABLE numbers (number INTEGER)")
"""


def python(code: str, *arguments: str, recording: Recording | None = None) -> str:
    environment = {} if recording is None else recording.environment()
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode in (0, -9), done.stderr
    return done.stdout.strip()


def test_a_real_process_is_recorded(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / "log").write_bytes(b"")
    (watched / "state").write_bytes(b"old state")
    recording = Recording(watched, tmp_path / "scratch")

    python(WRITER, str(watched), recording=recording)
    assert (watched / "log").read_bytes() == b"synced not synced"
    recording.cut(random.Random(1), Cut.NOTHING)

    assert (watched / "log").read_bytes() == b"synced "
    assert (watched / "state").read_bytes() == b"old state"


@pytest.mark.parametrize(("synchronous", "survive"), [("FULL", True), ("OFF", False)])
@pytest.mark.parametrize("how", list(Cut))
def test_sqlite_keeps_what_it_has_synced_and_only_that(
    tmp_path: Path, synchronous: str, survive: bool, how: Cut
) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    python(CREATE, str(watched))
    recording = Recording(watched, tmp_path / "scratch")

    python(SQLITE, str(watched), synchronous, recording=recording)
    recording.cut(random.Random(3), how)

    assert (python(COUNT, str(watched)) == "50") is survive
