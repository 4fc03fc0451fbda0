"""Whatever is there: a plan of what `alerting export` writes of it says that nothing changes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from sqlmodel import update

from controlplane.alerts import store
from controlplane.alerts.rules import inhibit_rows
from controlplane.alerts.tables import AlertRuleRow, DestinationRow, InhibitRuleRow, SilenceRow
from controlplane.client import Client
from controlplane.command.alerting.alerting_commands import lines_of
from controlplane.command.alerting.alerting_files import read_files
from controlplane.contract.bodies.alerts import AlertRule, InhibitRule, Silence
from controlplane.contract.channels.destinations import Destination
from controlplane.contract.on_call.declared_alerting import AlertingChanges
from controlplane.contract.on_call.incidents import Route
from controlplane.db import Database
from controlplane.incidents import store as incidents
from controlplane.incidents.tables import RouteRow
from tests.controlplane.declared.conftest import NOW, Undone
from tests.controlplane.declared.declared_sets import SETS


class Lists:
    """What the client's lists would be, from within the transaction."""

    def __init__(self, applies: Undone) -> None:
        self.session = applies.session

    def all(self) -> list[Sequence[object]]:
        lasting = [one for one in self.silences() if one.ends_at > NOW]
        return [self.alert_rules(), self.routes(), self.inhibit_rules(), self.destinations(), lasting]

    def alert_rules(self) -> list[AlertRule]:
        return store.rules(self.session)

    def routes(self) -> list[Route]:
        return incidents.routes(self.session)

    def inhibit_rules(self) -> list[InhibitRule]:
        return inhibit_rows.inhibit_rules(self.session)

    def silences(self) -> list[Silence]:
        return store.silences(self.session, before_id=None, limit=100)

    def destinations(self) -> list[Destination]:
        return store.destinations(self.session, before_id=None, limit=100, now=NOW)


def planned(applies: Undone, folder: str) -> AlertingChanges:
    """Of what is exported now."""
    file = Path(folder) / "exported.toml"
    file.write_text("\n".join(lines_of(cast(Client, Lists(applies)))), encoding="utf-8")
    return applies(**read_files([file]).body(prune=True, dry_run=True))


@given(wanted=SETS)
def test_a_plan_of_what_is_exported_changes_nothing(database: Database, wanted: dict[str, Any]) -> None:
    with Undone(database) as applies, tempfile.TemporaryDirectory() as folder:
        applies(**wanted)
        moved = {change.field for step in planned(applies, folder).steps for change in step.changes}
        assert moved <= {"origin"}, "what other files made is this one's then"
        for row in (AlertRuleRow, RouteRow, InhibitRuleRow, SilenceRow, DestinationRow):
            applies.session.execute(update(row).values(origin=None))
        found = planned(applies, folder)
        assert not found.changed, found.steps
        assert len(found.steps) + found.others == sum(map(len, Lists(applies).all()))
