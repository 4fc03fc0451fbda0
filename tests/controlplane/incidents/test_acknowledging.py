"""Who was told of an incident's alerts hears who looks at it: once, and not where it was said."""

from collections.abc import Callable
from datetime import timedelta

from sqlmodel import select

from controlplane.alerts import store as alerts
from controlplane.alerts.notify import outbox
from controlplane.alerts.tables import DeliveryRow
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.db import Database
from controlplane.incidents.acknowledging import Said, acknowledge
from controlplane.incidents.upkeep import IncidentKeeper
from tests.controlplane.incidents.conftest import START
from tests.keyrings import keyring_of

NOW, LINK = START + timedelta(minutes=1), "https://t.test"


def told(database: Database, *made: Alert) -> int:
    """A PagerDuty that was told of these alerts, which are one incident."""
    keyring = keyring_of(database)
    wanted = DestinationCreate(name="on-call", kind=DestinationKind.PAGERDUTY, secret="key-of-it")
    with database.session() as session:
        number = alerts.create_destination(session, wanted, keyring, actor="t", now=NOW).id
        for one in made:
            outbox.enqueue_firing(session, one, NOW, LINK)
    IncidentKeeper(database).tick(NOW)
    return number


def letters(database: Database) -> list[tuple[int, int]]:
    """(alert, destination) of what was written about the acknowledgement."""
    with database.read_session() as session:
        rows = session.exec(select(DeliveryRow).where(DeliveryRow.status == "acknowledged").order_by("alert_id"))
        return [(row.alert_id, row.destination_id) for row in rows]


def acknowledged(database: Database, actor: str, said: Said | None = None) -> bool:
    with database.session() as session:
        return acknowledge(session, 1, actor=actor, now=NOW, public_url=LINK, said=said)


def test_each_alert_that_fires_is_told_of_once(
    database: Database, alert: Callable[..., Alert], put: Callable[[Alert], None]
) -> None:
    fires, also, over = (alert(1, stage="queue"), alert(2, stage="queue"), alert(3, stage="queue", ended_s=30))
    for one in (fires, also, over):
        put(one)
    number = told(database, fires, also, over)
    assert acknowledged(database, "ada") and not acknowledged(database, "bob")
    assert letters(database) == [(1, number), (2, number)]


def test_where_it_was_said_hears_of_the_other_alerts_alone(
    database: Database, alert: Callable[..., Alert], put: Callable[[Alert], None]
) -> None:
    both = alert(1, stage="queue"), alert(2, stage="queue")
    for one in both:
        put(one)
    number = told(database, *both)
    assert acknowledged(database, "ada by on-call", Said(1, number))
    assert letters(database) == [(2, number)]
