"""The hub pokes after a commit, and only then."""

import pytest
from sqlalchemy import text

from controlplane.db.database import Database
from controlplane.fleet import FleetHub


class CountingHub(FleetHub):
    pokes = 0

    def poke(self) -> None:
        self.pokes += 1


def test_poke_follows_the_commit(database: Database) -> None:
    hub = CountingHub(database)
    with database.session() as session:
        session.connection().execute(text("UPDATE pool SET name = name"))
        hub.poke_after_commit(session)
        assert hub.pokes == 0
    assert hub.pokes == 1


def test_a_rolled_back_change_pokes_nobody(database: Database) -> None:
    hub = CountingHub(database)
    with pytest.raises(RuntimeError), database.session() as session:
        hub.poke_after_commit(session)
        raise RuntimeError
    assert hub.pokes == 0


def test_poke_without_a_loop_does_nothing(database: Database) -> None:
    FleetHub(database).poke()
