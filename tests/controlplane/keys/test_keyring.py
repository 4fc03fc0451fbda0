"""The file of keys: made once, the same for every replica, and another is refused."""

from pathlib import Path

import pytest
from sqlalchemy.exc import StatementError
from sqlmodel import col, select

from controlplane.auth.tables import FleetSecretRow
from controlplane.contract.errors import BadSettings
from controlplane.db.database import Database
from controlplane.keys import Keyring, Place, Undecryptable
from controlplane.keys.tables import EncryptionKeyRow

PLACE = Place("fleet_secret", "value", "workload_key")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "secrets.key"


def put(database: Database, keyring: Keyring, text: str) -> None:
    with database.session() as session:
        row = session.get(FleetSecretRow, PLACE.row) or FleetSecretRow(name=str(PLACE.row), value="")
        row.value = keyring.encrypt(session, PLACE, text)
        session.add(row)


def read(database: Database, keyring: Keyring) -> str:
    with database.read_session() as session:
        return keyring.decrypt(PLACE, session.get_one(FleetSecretRow, PLACE.row).value)


def test_the_first_start_makes_the_key_and_later_ones_take_it(database: Database, file: Path) -> None:
    first = Keyring(file)
    first.open(database)
    assert file.stat().st_mode & 0o777 == 0o600
    put(database, first, "secret")
    later = Keyring(file)
    later.open(database)
    assert later.key_ids == first.key_ids and read(database, later) == "secret"


def test_a_start_that_was_killed_before_its_commit_is_completed(database: Database, file: Path) -> None:
    made = Keyring(file).add()
    keyring = Keyring(file)
    keyring.open(database)
    assert keyring.key_ids == [made]


def test_a_replica_with_another_key_or_none_does_not_start(database: Database, file: Path, tmp_path: Path) -> None:
    keyring = Keyring(file)
    keyring.open(database)
    other = Keyring(tmp_path / "other.key")
    with pytest.raises(BadSettings, match=f"is not there, and so not the key {keyring.key_ids[0]}"):
        other.open(database)
    assert not other.file.exists()
    other.add()
    with pytest.raises(BadSettings, match=r"every replica needs the same.*`tailwright secrets forget`"):
        other.open(database)
    other.file.write_bytes(file.read_bytes())
    other.open(database)


def test_a_key_that_is_put_into_the_file_later_is_found(database: Database, file: Path, tmp_path: Path) -> None:
    keyring, behind = Keyring(file), Keyring(tmp_path / "copy.key")
    keyring.open(database)
    behind.file.write_bytes(file.read_bytes())
    assert behind.key_ids == keyring.key_ids
    with database.session() as session:
        session.exec(select(EncryptionKeyRow)).one().key_id = keyring.add()
    put(database, keyring, "secret")
    with pytest.raises(Undecryptable, match="does not hold the key"):
        read(database, behind)
    behind.file.write_bytes(file.read_bytes())
    assert read(database, behind) == "secret"


def test_nothing_is_stored_in_clear(database: Database) -> None:
    with pytest.raises(StatementError, match="no encrypted text"), database.session() as session:
        session.add(FleetSecretRow(name="workload_key", value="in clear"))
    with database.read_session() as session:
        assert session.exec(select(col(FleetSecretRow.name))).all() == []


@pytest.mark.parametrize("content", ["nonsense", "00" * 31, "é"])
def test_a_file_that_is_no_key_file_is_refused(content: str, database: Database, file: Path) -> None:
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(BadSettings, match=r"secrets_key_file: .*secrets\.key is no file of") as refused:
        Keyring(file).open(database)
    assert content not in refused.value.message


def test_a_file_that_cannot_be_written_is_said(database: Database, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"secrets_key_file: .* cannot be written: No such file"):
        Keyring(tmp_path / "gone" / "secrets.key").open(database)
