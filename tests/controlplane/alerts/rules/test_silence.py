"""An open alert says which silence or inhibit rule holds it back, so that nobody looks for it in vain."""

from datetime import timedelta

import pytest

from controlplane.alerts.rules.inhibition import held_by
from controlplane.alerts.rules.silence import seen_at
from controlplane.contract.bodies.alerts import AlertState, InhibitRule, Silence, Silenced
from tests.alerts_made import NOW, alert_made


def silence(number: int, comment: str, **matchers: str) -> Silence:
    end = NOW + timedelta(hours=2)
    return Silence(
        id=number, matchers=matchers, starts_at=NOW, ends_at=end, created_by="ada", comment=comment, patterns={}
    )


RULE = InhibitRule(
    id=1,
    name="pages before tickets",
    source=Silenced(matchers={"severity": "page"}),
    target=Silenced(matchers={"severity": "ticket"}),
    created_at=NOW,
)
INHIBITED = held_by([RULE], [{"severity": "page", "pool": "main"}])


def test_the_first_that_holds_it_is_named_with_its_end_and_its_reason() -> None:
    found = seen_at(alert_made(), [silence(3, "other", pool="batch"), silence(4, "a drill", pool="main")], NOW)
    assert found.silenced and found.held_by == "silence 4 until 2030-01-01 14:00 UTC: a drill"


def test_an_inhibit_rule_is_named_as_one() -> None:
    found = seen_at(alert_made(severity="ticket"), INHIBITED, NOW)
    assert found.silenced and found.held_by == "inhibit rule 'pages before tickets'"


@pytest.mark.parametrize("state", [AlertState.FIRING, AlertState.RESOLVED])
def test_nothing_is_said_where_nothing_holds_it(state: AlertState) -> None:
    held = [silence(4, "a drill", pool="main")] if state is AlertState.RESOLVED else INHIBITED
    found = seen_at(alert_made(state=state), held, NOW)
    assert not found.silenced and found.held_by is None
