"""The oldest entries leave the ledger by an archive, and archive and rest are proven together."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from controlplane import ledger
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.db.database import Database
from controlplane.ledger import archive_file, inspection, signing
from controlplane.ledger.archiving import KEPT, archive
from controlplane.ledger.chain import START, Content, Head, Link, Wrong, extended, first_wrong
from tests.made_tables import migrate

START_AT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START_AT + timedelta(days=60)
KEY = b"k" * 32


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An entry a day for ten days."""
    sqlite = request.param == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'l.db'}" if sqlite else request.getfixturevalue("postgres_schema_url"))
    migrate(made)
    for day in range(10):
        append(made, START_AT + timedelta(days=day))
    yield made
    made.close()


def append(database: Database, at: datetime) -> None:
    with database.session() as session:
        ledger.append(session, at, "me", "a.b", "a/1", "done, é", figure=0.1)


def day(number: int) -> datetime:
    return START_AT + timedelta(days=number)


def test_archive_and_rest_are_proven_together(database: Database, tmp_path: Path) -> None:
    told = inspection.newest(database)
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    done = archive(database, day(4), first, KEY, NOW)
    assert done is not None and (done.first, done.last.id) == (1, 4)
    assert first.stat().st_mode & 0o777 == 0o600
    assert signing.is_signed(archive_file.head_of(first), KEY)
    again = archive(database, day(7), second, KEY, NOW)
    assert again is not None and (again.first, again.last.id) == (5, 7)
    head = inspection.newest(database)
    assert head.id == 12, "each archiving is an entry itself"
    for archives in ([], [first, second], [second, first]):
        assert inspection.verify(database, [told], archives, KEY) == (head, None)
    assert inspection.verify(database, (), [second], KEY)[1] == Wrong(1, "is missing")
    assert inspection.verify(database, (), [first], KEY)[1] == Wrong(5, "is missing")
    with database.read_session() as session:
        entries = ledger.entries(session, before_id=None, limit=100)
    assert [entry.id for entry in entries] == [12, 11, 10, 9, 8]
    assert entries[0].kind == "ledger.archived" and entries[0].evidence["id"] == 7


def test_the_refusal_to_remove_is_back(database: Database, tmp_path: Path) -> None:
    archive(database, day(4), tmp_path / "a", KEY, NOW)
    for statement in ("DELETE FROM ledger WHERE id = 6", "UPDATE ledger SET actor = 'nobody'"):
        with pytest.raises(DBAPIError, match="the ledger is append-only"), database.session() as session:
            session.execute(text(statement))
    append(database, NOW)
    assert inspection.verify(database, (), [tmp_path / "a"], KEY)[1] is None


def test_a_failure_leaves_the_ledger_as_it_was(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise OSError("no space left")

    monkeypatch.setattr("controlplane.ledger.signing.anchor_signature", broken)
    with pytest.raises(OSError, match="no space"):
        archive(database, day(4), tmp_path / "a", KEY, NOW)
    assert inspection.verify(database) == (inspection.newest(database), None)
    assert inspection.archived(database) == START
    with pytest.raises(DBAPIError, match="append-only"), database.session() as session:
        session.execute(text("DELETE FROM ledger WHERE id = 2"))
    # What was written already proves nothing less: it is looked through up to what was removed.
    assert inspection.verify(database, (), [tmp_path / "a"])[1] is None


def test_who_moves_the_anchor_without_the_key_is_found(database: Database, tmp_path: Path) -> None:
    archive(database, day(4), tmp_path / "a", KEY, NOW)
    with database.snapshot() as connection:
        link = next(link for link in inspection.stored_links(connection) if link.id == 6)
    told = signing.signed(Head(6, link.hash), KEY)
    opened = "ALTER TABLE ledger DISABLE TRIGGER ALL" if not database.is_sqlite else "DROP TRIGGER ledger_no_delete"
    with database.session() as session:
        session.execute(text(opened))
        session.execute(text("DELETE FROM ledger WHERE id <= 6"))
        moved = f"UPDATE ledger_anchor SET entry = 6, hash = '{link.hash}', signature = '{told.signature}'"
        session.execute(text(moved))
    found = inspection.verify(database, (), [], KEY)[1]
    assert found is not None and found.id == 6 and "another key" in found.what
    assert inspection.verify(database, (), [tmp_path / "a"])[1] == Wrong(5, "is missing")


def test_an_entry_that_was_changed_is_not_archived(database: Database, tmp_path: Path) -> None:
    opened = "ALTER TABLE ledger DISABLE TRIGGER ALL" if not database.is_sqlite else "DROP TRIGGER ledger_no_update"
    with database.session() as session:
        session.execute(text(opened))
        session.execute(text("UPDATE ledger SET actor = 'nobody' WHERE id = 2"))
    with pytest.raises(Conflict, match="nothing is archived: ledger entry 2 was changed"):
        archive(database, day(4), tmp_path / "a", KEY, NOW)
    assert list(tmp_path.glob("a*")) == []


def test_what_cannot_be_asked_for(database: Database, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="the last 30 days stay"):
        archive(database, NOW - KEPT + timedelta(seconds=1), tmp_path / "a", KEY, NOW)
    assert archive(database, START_AT, tmp_path / "a", KEY, NOW) is None
    (tmp_path / "a").write_text("keep")
    with pytest.raises(Conflict, match="is there already"):
        archive(database, day(4), tmp_path / "a", KEY, NOW)
    assert (tmp_path / "a").read_text() == "keep"
    with pytest.raises(BadRequest, match="is no archive of the ledger"):
        inspection.verify(database, (), [tmp_path / "a"])


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=9)
VALUES = st.dictionaries(TEXTS, st.integers() | TEXTS | st.floats(allow_nan=False, allow_infinity=False), max_size=3)
CONTENTS = st.builds(Content, st.datetimes(timezones=st.just(UTC)), TEXTS, TEXTS, TEXTS, TEXTS, VALUES)


@given(st.lists(CONTENTS, min_size=1, max_size=6), st.data())
def test_every_entry_comes_back_and_a_changed_line_is_found(
    tmp_path_factory: pytest.TempPathFactory, contents: list[Content], data: st.DataObject
) -> None:
    chain: list[Link] = []
    for content in contents:
        before = Head(chain[-1].id, chain[-1].hash) if chain else START
        chain.append(extended(before, content))
    head = Head(chain[-1].id, chain[-1].hash)
    file = tmp_path_factory.mktemp("archive") / "a"
    file.write_text("".join(archive_file.lines(START, chain, signing.signed(head, KEY))), encoding="ascii")
    assert list(archive_file.links([file])) == chain and archive_file.after_of(file) == START
    assert first_wrong(archive_file.links([file]), head) is None
    lines = file.read_text().splitlines()
    at = data.draw(st.integers(1, len(chain)))
    lines.pop(at)
    file.write_text("\n".join(lines))
    assert first_wrong(archive_file.links([file]), head) is not None
