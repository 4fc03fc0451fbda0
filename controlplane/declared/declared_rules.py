"""Alert rules as files declare them."""

from collections.abc import Sequence

from controlplane.alerts import store
from controlplane.alerts.checks import check_rule
from controlplane.alerts.symptoms.usual_severity import with_severity
from controlplane.contract.on_call.declared_alerting import DeclaredKind, DeclaredRule
from controlplane.declared.declarable import ALL, Declarable, fields_of
from controlplane.declared.reconciliation import Thing

OF_THE_SERVICE = ("id", "created_at")


class DeclaredRules(Declarable[DeclaredRule]):
    kind = DeclaredKind.ALERT_RULE
    list_name = "alert_rules"

    def there(self) -> list[Thing]:
        found = store.rules(self.hand.session, limit=ALL)
        return [Thing(one.name, one.name, one.origin, fields_of(one, *OF_THE_SERVICE), one.id) for one in found]

    def check(self, wanted: DeclaredRule, there: Sequence[Thing]) -> None:
        check_rule(wanted)
        if wanted.remedy is not None:
            self.hand.check_remedy(wanted.remedy)

    def thing(self, wanted: DeclaredRule, there: Sequence[Thing]) -> Thing:
        return Thing(wanted.name, wanted.name, wanted.origin, fields_of(with_severity(wanted)))

    def create(self, wanted: DeclaredRule) -> int:
        hand = self.hand
        return store.create_rule(hand.session, wanted, hand.now, actor=hand.actor, origin=wanted.origin).id

    def change(self, there: Thing, wanted: DeclaredRule) -> None:
        hand, number = self.hand, there.id or 0
        store.update_rule(
            hand.session, number, wanted, hand.now, hand.public_url, actor=hand.actor, origin=wanted.origin
        )

    def remove(self, there: Thing) -> None:
        hand = self.hand
        store.delete_rule(hand.session, there.id or 0, hand.now, hand.public_url, actor=hand.actor)
