"""Uses of tokens: written together, once, not a node's, and kept where they cannot be written."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import OperationalError

from controlplane.auth import store
from controlplane.auth.token_uses import TokenUses
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def last_uses(database: Database) -> list[datetime | None]:
    """Of all tokens, the oldest first."""
    with database.read_session() as session:
        return [view.last_used_at for view in reversed(store.listing(session, before_id=None, limit=9))]


@pytest.fixture
def three(database: Database) -> list[int]:
    with database.session() as session:
        return [store.issue(session, name=f"t{n}", scope=Scope.READ, now=NOW)[0].id for n in range(3)]


def test_what_was_used_is_written_and_then_forgotten(database: Database, three: list[int]) -> None:
    uses = TokenUses()
    for _ in range(5):
        uses.note(three[0], None)
    uses.note(three[2], "a-node")
    uses.write(database, NOW)
    assert last_uses(database) == [NOW, None, None]
    uses.note(three[1], None)
    uses.write(database, LATER)
    assert last_uses(database) == [NOW, LATER, None]


def test_what_could_not_be_written_is_written_the_next_time(
    database: Database, three: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("UPDATE", {}, Exception("gone"))

    uses = TokenUses()
    uses.note(three[0], None)
    with monkeypatch.context() as broken:
        broken.setattr(store, "note_uses", fail)
        with pytest.raises(OperationalError):
            uses.write(database, NOW)
    uses.write(database, LATER)
    assert last_uses(database) == [LATER, None, None]
