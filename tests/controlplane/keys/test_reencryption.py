"""Keys change, and every secret with them, whoever else writes meanwhile."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import MetaData, text
from sqlmodel import SQLModel, col, select

from controlplane import ledger
from controlplane.alerts.tables import DestinationRow, place_of
from controlplane.app.tables import all_tables
from controlplane.auth import store as tokens
from controlplane.contract.errors import Conflict
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable, reencryption
from controlplane.keys.tables import encrypted_columns
from tests.keyrings import add_destination, keyring_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://hooks.example/services/T0/B0/{}"


@pytest.fixture
def keyring(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    made = Keyring(tmp_path / "secrets.key")
    made.open(database)
    monkeypatch.setattr("tests.keyrings._keyring", lambda: made)
    assert keyring_of(database) is made
    return made


def urls(database: Database, keyring: Keyring) -> list[str]:
    with database.read_session() as session:
        rows = session.exec(select(DestinationRow).order_by(col(DestinationRow.id)))
        return [keyring.decrypt(place_of(row.id or 0, "url"), row.url or "") for row in rows]


def test_the_columns_of_secrets_are_known() -> None:
    names = [f"{column.table.name}.{column.name}" for column in encrypted_columns(all_tables())]
    assert sorted(names) == [
        "browser_session.address",
        "destination.callback_secret",
        "destination.secret",
        "destination.url",
        "fleet_secret.value",
        "person.subject",
        "prompt_set.prompts",
        "rollout_hook.secret",
        "rollout_hook.url",
    ]
    assert all_tables() is SQLModel.metadata


def test_every_secret_is_encrypted_anew_and_the_old_key_dropped(database: Database, keyring: Keyring) -> None:
    for number in range(3):
        add_destination(database, URL.format(number), NOW, secret="x" * 8)
    with database.session() as session:
        workload_key = tokens.workload_key(session, keyring)
    (old,) = keyring.key_ids
    new, count = reencryption.rotate(database, keyring, all_tables(), NOW)
    assert count == 7 and keyring.key_ids == [old, new]
    assert reencryption.drop_others(database, keyring, all_tables(), new) and keyring.key_ids == [new]
    with database.snapshot() as connection:
        assert reencryption.counts(connection, all_tables()) == {new: 7}
    assert urls(database, Keyring(keyring.file)) == [URL.format(number) for number in range(3)]
    with database.session() as session:
        assert tokens.workload_key(session, keyring) == workload_key
        (entry,) = ledger.entries(session, before_id=None, limit=9, kind="secrets")
    assert entry.kind == "secrets.rotated" and new in entry.message


def test_a_key_that_was_added_before_is_taken(database: Database, keyring: Keyring) -> None:
    added = reencryption.add_key(database, keyring)
    assert reencryption.rotate(database, keyring, all_tables(), NOW) == (added, 0)


def test_whoever_was_overtaken_does_not_drop_the_key_in_use(database: Database, keyring: Keyring) -> None:
    first, _ = reencryption.rotate(database, keyring, all_tables(), NOW)
    reencryption.drop_others(database, keyring, all_tables(), first)
    second, _ = reencryption.rotate(database, keyring, all_tables(), NOW)
    assert not reencryption.drop_others(database, keyring, all_tables(), first)
    assert keyring.key_ids == [first, second]


def test_one_that_cannot_be_read_changes_nothing(database: Database, keyring: Keyring) -> None:
    first, second = (add_destination(database, URL.format(number), NOW) for number in range(2))
    with database.session() as session:
        session.execute(text(f"UPDATE destination SET url = (SELECT url FROM destination WHERE id = {first})"))
    with pytest.raises(Undecryptable, match=f"destination.url of {second}: .*set it anew"):
        reencryption.rotate(database, keyring, all_tables(), NOW)
    with database.snapshot() as connection:
        assert reencryption.counts(connection, all_tables()) == {keyring.key_ids[0]: 2}


def test_secrets_written_meanwhile_are_of_the_key_in_use(database: Database, keyring: Keyring) -> None:
    """Services of their own, as in other processes, write while keys are rotated and dropped."""
    written: list[int] = []

    def write(start: int) -> None:
        own = Keyring(keyring.file)
        for number in range(start, start + 10):
            with database.session() as session:
                row = DestinationRow(name=str(number), shown="", created_at=NOW)
                session.add(row)
                session.flush()
                row.url = own.encrypt(session, place_of(row.id or 0, "url"), URL.format(number))
                session.add(row)
            written.append(number)

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 10)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        key_id, _ = reencryption.rotate(database, keyring, all_tables(), NOW)
        reencryption.drop_others(database, keyring, all_tables(), key_id)
    for writer in writers:
        writer.join()
    assert len(written) == 20
    assert sorted(urls(database, Keyring(keyring.file))) == sorted(URL.format(number) for number in range(20))


def test_no_key_is_dropped_that_a_secret_still_needs(database: Database, keyring: Keyring) -> None:
    add_destination(database, URL.format(0), NOW)
    before = keyring.key_ids
    key_id, count = reencryption.rotate(database, keyring, MetaData(), NOW)
    assert count == 0, "it was told of no table"
    with pytest.raises(Conflict, match=f"still encrypted with the keys {before[0]}: nothing is dropped"):
        reencryption.drop_others(database, keyring, all_tables(), key_id)
    assert keyring.key_ids == [*before, key_id]
