"""Inhibit rules as files declare them."""

from collections.abc import Sequence

from controlplane.alerts.checks import check_inhibit_rule
from controlplane.alerts.rules import inhibit_rows
from controlplane.contract.on_call.declared_alerting import DeclaredInhibitRule, DeclaredKind
from controlplane.declared.declarable import ALL, Declarable, fields_of
from controlplane.declared.reconciliation import Thing


class DeclaredInhibitRules(Declarable[DeclaredInhibitRule]):
    kind = DeclaredKind.INHIBIT_RULE
    list_name = "inhibit_rules"

    def there(self) -> list[Thing]:
        found = inhibit_rows.inhibit_rules(self.hand.session, limit=ALL)
        return [Thing(one.name, one.name, one.origin, fields_of(one, "id", "created_at"), one.id) for one in found]

    def check(self, wanted: DeclaredInhibitRule, there: Sequence[Thing]) -> None:
        check_inhibit_rule(wanted)

    def thing(self, wanted: DeclaredInhibitRule, there: Sequence[Thing]) -> Thing:
        return Thing(wanted.name, wanted.name, wanted.origin, fields_of(wanted))

    def create(self, wanted: DeclaredInhibitRule) -> int:
        hand, origin = self.hand, wanted.origin
        return inhibit_rows.create_inhibit_rule(hand.session, wanted, actor=hand.actor, now=hand.now, origin=origin).id

    def change(self, there: Thing, wanted: DeclaredInhibitRule) -> None:
        hand, number = self.hand, there.id or 0
        inhibit_rows.update_inhibit_rule(
            hand.session, number, wanted, actor=hand.actor, now=hand.now, origin=wanted.origin
        )

    def remove(self, there: Thing) -> None:
        inhibit_rows.delete_inhibit_rule(self.hand.session, there.id or 0, actor=self.hand.actor, now=self.hand.now)
