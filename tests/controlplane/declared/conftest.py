"""A database in a file, and what applies a declared set in it; whatever is done is undone at the end."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlmodel import Session

import controlplane.auth.tables
import controlplane.fleet.tables
import controlplane.incidents.tables
import controlplane.ledger.tables  # noqa: F401
from controlplane.app.remedies import check_remedy
from controlplane.auth.principal import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.on_call.declared_alerting import AlertingChanges, AlertingSet
from controlplane.db import Database
from controlplane.declared.applying import apply
from controlplane.declared.declarable import Hand
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path_factory.mktemp('declared')}/tailwright.db")
    create_tables(made)
    yield made
    made.close()


class Undone:
    """Applies sets in one transaction, which is rolled back when the block is left."""

    def __init__(self, database: Database) -> None:
        self.keyring = keyring_of(database)
        self.session = Session(database.engine)
        self.principal = Principal("ada", Scope.ADMIN, 1)
        self.now = NOW

    def __enter__(self) -> "Undone":
        return self

    def __exit__(self, *_: object) -> None:
        self.session.rollback()
        self.session.close()

    @property
    def hand(self) -> Hand:
        return Hand(
            self.session, self.keyring, self.principal.actor, self.now, "https://tailwright.example", check_remedy
        )

    def __call__(self, **wanted: Any) -> AlertingChanges:
        return apply(AlertingSet.model_validate(wanted), self.hand, self.principal)


@pytest.fixture
def applies(database: Database) -> Iterator[Undone]:
    with Undone(database) as made:
        yield made
