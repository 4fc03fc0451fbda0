"""Whatever is there: a plan of what `alerting export` writes of it says that nothing changes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import update

from controlplane.alerts import store
from controlplane.alerts.rules import inhibit_rows
from controlplane.alerts.tables import AlertRuleRow, DestinationRow, InhibitRuleRow, SilenceRow
from controlplane.client import Client
from controlplane.command.alerting.alerting_commands import lines_of
from controlplane.command.alerting.alerting_files import read_files
from controlplane.command.pools.engine_arguments import toml_text
from controlplane.contract.bodies.alerts import AlertRule, InhibitRule, Silence
from controlplane.contract.changes.hooks import Hook
from controlplane.contract.channels.destinations import Destination
from controlplane.contract.on_call.declared_alerting import AlertingChanges
from controlplane.contract.on_call.incidents import Route
from controlplane.db import Database
from controlplane.incidents import store as incidents
from controlplane.incidents.tables import RouteRow
from controlplane.rollouts.hooks import store as hook_rows
from controlplane.rollouts.hooks.tables import RolloutHookRow
from tests.controlplane.declared.conftest import NOW, Undone
from tests.controlplane.declared.declared_sets import HOOKS, SETS


class Lists:
    """What the client's lists would be, from within the transaction."""

    def __init__(self, applies: Undone) -> None:
        self.session = applies.session

    def all(self) -> list[Sequence[object]]:
        lasting = [one for one in self.silences() if one.ends_at > NOW]
        return [self.alert_rules(), self.routes(), self.inhibit_rules(), self.destinations(), lasting, self.hooks()]

    def hooks(self, pool: str | None = None) -> list[Hook]:
        return hook_rows.hooks(self.session, before_id=None, limit=100, pool=pool)

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


@given(wanted=st.lists(HOOKS, max_size=4, unique_by=lambda one: (str(one["pool"]), str(one["name"]))))
def test_a_plan_of_an_exported_pool_changes_none_of_its_hooks(database: Database, wanted: list[dict[str, Any]]) -> None:
    with Undone(database) as applies, tempfile.TemporaryDirectory() as folder:
        applies(hooks=wanted)
        files = []
        for pool in ("chat", "code"):
            hooks = Lists(applies).hooks(pool)
            files.append(Path(folder) / f"{pool}.toml")
            text = toml_text(pool, {"max_num_seqs": 8}, hooks)
            assert "example/" not in text and "-secret" not in text.replace("secret_kept", "")
            files[-1].write_text(text, encoding="utf-8")
        for origin in ({"origin"}, set[str]()):
            found = applies(**read_files(files).body(prune=True, dry_run=True))
            assert len(found.steps) == len(wanted) and found.others == 0
            assert {change.field for step in found.steps for change in step.changes} <= origin
            applies.session.execute(update(RolloutHookRow).values(origin=None))


def planned(applies: Undone, folder: str) -> AlertingChanges:
    """Of what is exported now."""
    file = Path(folder) / "exported.toml"
    file.write_text("\n".join(lines_of(cast(Client, Lists(applies)))), encoding="utf-8")
    return applies(**read_files([file]).body(prune=True, dry_run=True))


@pytest.mark.slow
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
