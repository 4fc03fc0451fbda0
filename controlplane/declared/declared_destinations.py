"""Destinations as files declare them. Guarantee: what is secret is compared, and never shown; what a file keeps is what
is there, which must be."""

from collections.abc import Sequence

from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.checks import check_destination
from controlplane.alerts.notify.destination_fields import secrets_of
from controlplane.alerts.notify.kept_secrets import SECRETS, with_kept
from controlplane.alerts.tables import DestinationRow
from controlplane.contract.bodies.access import Scope
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.on_call.declared_alerting import DeclaredDestination, DeclaredKind
from controlplane.contract.shown_url import masked
from controlplane.declared.declarable import Declarable, fields_of
from controlplane.declared.reconciliation import Hidden, Thing

KEPT = tuple(f"{name}_kept" for name in SECRETS)


class DeclaredDestinations(Declarable[DeclaredDestination]):
    kind = DeclaredKind.DESTINATION
    list_name = "destinations"
    scope = Scope.ADMIN

    def there(self) -> list[Thing]:
        return [self._kept(row) for row in self.hand.session.exec(select(DestinationRow))]

    def _kept(self, row: DestinationRow) -> Thing:
        plain = {
            "name": row.name,
            "kind": row.kind,
            "login": row.login,
            "recipients": row.recipients,
            "sender": row.sender,
            "per_minute": row.per_minute,
            "title_template": row.title_template,
            "text_template": row.text_template,
            "only": row.only,
            "enabled": row.enabled,
        }
        hidden = {
            name: None if secret is None else Hidden(secret.text, row.shown) if name == "url" else Hidden(secret.text)
            for name, secret in secrets_of(row, self.hand.keyring).items()  # What cannot be read differs from all.
        }
        return Thing(row.name, row.name, row.origin, {**plain, **hidden}, row.id)

    def check(self, wanted: DeclaredDestination, there: Sequence[Thing]) -> None:
        check_destination(self._whole(wanted, there))

    def thing(self, wanted: DeclaredDestination, there: Sequence[Thing]) -> Thing:
        whole = self._whole(wanted, there)
        wants = DESTINATION_KINDS[whole.kind]
        url = whole.url or wants.usual_url or ""
        given = {
            **fields_of(whole, *SECRETS, *KEPT),
            "per_minute": whole.per_minute or wants.per_minute,
            "url": Hidden(url, masked(url)),
            "secret": None if whole.secret is None else Hidden(whole.secret),
            "callback_secret": None if whole.callback_secret is None else Hidden(whole.callback_secret),
        }
        return Thing(wanted.name, wanted.name, wanted.origin, given)

    def _whole(self, wanted: DeclaredDestination, there: Sequence[Thing]) -> DeclaredDestination:
        """With the secrets that it keeps. Raises `BadRequest` where there is none to keep, or one is given as well."""
        found = next((one for one in there if one.key == wanted.name), None)
        if found is None:
            return with_kept(wanted, None, "", {})
        url = found.fields["url"]
        shown = "" if url is None else url.shown
        return with_kept(wanted, found.fields["kind"], shown, {name: found.fields[name] for name in SECRETS})

    def create(self, wanted: DeclaredDestination) -> int:
        hand = self.hand
        return store.create_destination(
            hand.session, wanted, hand.keyring, actor=hand.actor, now=hand.now, origin=wanted.origin
        ).id

    def change(self, there: Thing, wanted: DeclaredDestination) -> None:
        hand = self.hand
        whole: DestinationCreate = self._whole(wanted, [there])
        store.update_destination(
            hand.session, there.id or 0, whole, hand.keyring, actor=hand.actor, now=hand.now, origin=wanted.origin
        )

    def remove(self, there: Thing) -> None:
        store.delete_destination(self.hand.session, there.id or 0, actor=self.hand.actor, now=self.hand.now)
