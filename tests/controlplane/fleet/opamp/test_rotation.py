"""A node's token gives way to another without a moment in which none counts."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.auth.principal import authenticate
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.errors import Unauthenticated
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp import rotation
from controlplane.fleet.tables import NodeRow

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAYS = 30.0
DUE = NOW + timedelta(days=DAYS)


def enrolled(database: Database) -> str:
    with database.session() as session:
        return fleet.enrol(session, EnrolmentRequest(node="n", pool="p", backend="vllm"), actor="me", now=NOW)


def who(database: Database, token: str) -> Principal:
    return authenticate(database, f"Bearer {token}", NOW)


def offered(database: Database, token: str, now: datetime) -> str | None:
    principal = who(database, token)
    with database.session() as session:
        row = session.get_one(NodeRow, "n")
        return rotation.offered(session, principal, row, DAYS, now)


def settle(database: Database, token: str, now: datetime) -> None:
    principal = who(database, token)
    with database.session() as session:
        rotation.settle(session, principal, now)


def test_a_token_is_replaced_by_the_first_use_of_the_next(database: Database) -> None:
    first = enrolled(database)
    assert offered(database, first, DUE - timedelta(seconds=1)) is None
    second = offered(database, first, DUE)
    assert second is not None
    settle(database, first, DUE)
    assert who(database, first).node == who(database, second).node == "n", "until then both count"
    assert who(database, second).pool == "p"
    settle(database, second, DUE)
    with pytest.raises(Unauthenticated):
        who(database, first)
    settle(database, second, DUE)
    with database.read_session() as session:
        (entry,) = ledger.entries(session, before_id=None, limit=9, kind=rotation.ROTATED)
    assert second not in entry.model_dump_json()
    assert offered(database, second, DUE) is None, "its time begins anew"


def test_an_offer_that_was_lost_is_made_again_and_the_lost_one_ends(database: Database) -> None:
    first = enrolled(database)
    lost = offered(database, first, DUE)
    assert lost is not None
    assert offered(database, first, DUE + timedelta(seconds=rotation.OFFERED_AGAIN_S - 1)) is None
    again = offered(database, first, DUE + timedelta(seconds=rotation.OFFERED_AGAIN_S))
    assert again is not None
    with pytest.raises(Unauthenticated):
        who(database, lost)
    assert who(database, first) and who(database, again)


def test_an_administrators_token_is_never_exchanged(database: Database) -> None:
    enrolled(database)
    with database.session() as session:
        _, admin = tokens.issue(session, name="a", scope=Scope.ADMIN, now=NOW)
    assert offered(database, admin, DUE + timedelta(days=365)) is None
