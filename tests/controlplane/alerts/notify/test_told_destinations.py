"""Who is told of which alert: a destination that is about certain ones hears of these, from firing to resolved."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlmodel import col, select

from controlplane.alerts import store
from controlplane.alerts.notify import outbox
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.alerts.view import alert_view
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.db import Database
from tests.keyrings import keyring_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PAGES = Silenced(matchers={"severity": "page"})
CHAT = Silenced(patterns={"pool": "chat-.*"})
OF_RULE = Silenced(matchers={"rule": "slow", "severity": "ticket"})


@pytest.fixture
def told(database: Database) -> Any:
    """Names of those who are told of an alert, by what of it."""
    for name, only in (("all", None), ("pager", PAGES), ("chat", CHAT), ("rule", OF_RULE)):
        wanted = DestinationCreate(name=name, url="http://127.0.0.1:9/x", only=only)
        with database.session() as session:
            store.create_destination(session, wanted, keyring_of(database), actor="t", now=NOW)

    def of(severity: str, pool: str, rule: str = "slow") -> dict[str, list[str]]:
        with database.session() as session:
            about = {"rule": rule, "kind": "absolute", "pool": pool, "labels": {"pool": pool}, "severity": severity}
            moments = {"started_at": NOW, "breach_since": NOW, "fired_at": NOW}
            row = AlertRow(fingerprint="f", rule_id=1, state="firing", summary="slow", **about, **moments)
            session.add(row)
            session.flush()
            outbox.enqueue_firing(session, alert_view(row), NOW, "http://t")
            outbox.enqueue_resolved(session, alert_view(row), NOW, "http://t")
            query = select(DeliveryRow.status, DestinationRow.name).join(
                DestinationRow, col(DestinationRow.id) == DeliveryRow.destination_id
            )
            found: dict[str, list[str]] = {"firing": [], "resolved": []}
            for status, name in session.exec(query.where(DeliveryRow.alert_id == row.id)):
                found[status].append(name)
            return {status: sorted(names) for status, names in found.items()}

    return of


@pytest.mark.parametrize(
    ("alert", "names"),
    [
        (("page", "chat-eu"), ["all", "chat", "pager"]),
        (("page", "batch"), ["all", "pager"]),
        (("ticket", "chat-eu", "other"), ["all", "chat"]),
        (("ticket", "batch"), ["all", "rule"]),
    ],
)
def test_each_hears_of_its_own_and_of_their_ends(told: Any, alert: tuple[str, ...], names: list[str]) -> None:
    assert told(*alert) == {"firing": names, "resolved": names}


def test_a_destination_says_what_it_is_about(told: Any, database: Database) -> None:
    with database.session() as session:
        found = store.destinations(session, before_id=None, limit=10, now=NOW)
    assert {one.name: one.only for one in found} == {"all": None, "pager": PAGES, "chat": CHAT, "rule": OF_RULE}
