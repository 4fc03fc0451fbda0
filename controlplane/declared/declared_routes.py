"""Routes as files declare them."""

from collections.abc import Sequence

from controlplane.contract.on_call.declared_alerting import DeclaredKind, DeclaredRoute
from controlplane.declared.declarable import ALL, Declarable, fields_of
from controlplane.declared.reconciliation import Thing
from controlplane.incidents import store
from controlplane.incidents.checks import check_route


class DeclaredRoutes(Declarable[DeclaredRoute]):
    kind = DeclaredKind.ROUTE
    list_name = "routes"

    def there(self) -> list[Thing]:
        found = store.routes(self.hand.session, limit=ALL)
        return [Thing(one.name, one.name, one.origin, fields_of(one, "id", "created_at"), one.id) for one in found]

    def check(self, wanted: DeclaredRoute, there: Sequence[Thing]) -> None:
        check_route(wanted)

    def thing(self, wanted: DeclaredRoute, there: Sequence[Thing]) -> Thing:
        return Thing(wanted.name, wanted.name, wanted.origin, fields_of(wanted))

    def create(self, wanted: DeclaredRoute) -> int:
        hand = self.hand
        return store.create_route(hand.session, wanted, actor=hand.actor, now=hand.now, origin=wanted.origin).id

    def change(self, there: Thing, wanted: DeclaredRoute) -> None:
        hand, number = self.hand, there.id or 0
        store.update_route(hand.session, number, wanted, actor=hand.actor, now=hand.now, origin=wanted.origin)

    def remove(self, there: Thing) -> None:
        store.delete_route(self.hand.session, there.id or 0, actor=self.hand.actor, now=self.hand.now)
