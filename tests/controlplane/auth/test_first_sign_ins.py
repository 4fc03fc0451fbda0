"""The key by which people are found is one, also where several are the first to sign in, at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import delete

from controlplane.auth import known_people
from controlplane.auth.known_people import Somebody
from controlplane.auth.tables import FleetSecretRow, PersonRow
from controlplane.contract.bodies.people import Role
from controlplane.db.database import Database
from controlplane.keys import Keyring
from tests.made_tables import migrate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PEOPLE = 4


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    made = Database(f"sqlite:///{tmp_path / 'p.db'}" if sqlite else request.getfixturevalue("postgres_schema_url"))
    migrate(made)
    yield made
    made.close()


@pytest.mark.slow
def test_several_who_are_the_first_at_once_are_found_by_one_key(database: Database, tmp_path: Path) -> None:
    keyring, together = Keyring(tmp_path / "secrets.key"), Barrier(PEOPLE)
    keyring.open(database)

    def sign_in(number: int) -> int | None:
        with database.session() as session:
            who = Somebody("https://issuer.example", f"s{number}", f"n{number}")
            return known_people.signed_in(session, keyring, who, Role.VIEWER, NOW).id

    def at_once(number: int) -> int | None:
        together.wait()
        return sign_in(number)

    for _ in range(10):
        with ThreadPoolExecutor(PEOPLE) as threads:
            first = list(threads.map(at_once, range(PEOPLE)))
        assert len(set(first)) == PEOPLE
        assert [sign_in(number) for number in range(PEOPLE)] == first
        with database.session() as session:
            session.execute(delete(PersonRow))
            session.execute(delete(FleetSecretRow))
