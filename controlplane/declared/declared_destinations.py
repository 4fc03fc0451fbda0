"""Destinations as files declare them. Guarantee: what is secret is compared, and never shown; what a file keeps is what
is there, which must be."""

from collections.abc import Sequence

from sqlmodel import select

from controlplane.alerts import store
from controlplane.alerts.checks import check_destination
from controlplane.alerts.tables import DestinationRow, place_of
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import DeclaredDestination, DeclaredKind
from controlplane.contract.shown_url import masked
from controlplane.declared.declarable import Declarable, fields_of
from controlplane.declared.reconciliation import Hidden, Thing
from controlplane.keys import Undecryptable

SECRETS = ("url", "secret", "callback_secret")
KEPT = tuple(f"{name}_kept" for name in SECRETS)


class DeclaredDestinations(Declarable[DeclaredDestination]):
    kind = DeclaredKind.DESTINATION
    list_name = "destinations"

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
        hidden = {name: self._hidden(row, name) for name in SECRETS}
        return Thing(row.name, row.name, row.origin, {**plain, **hidden}, row.id)

    def _hidden(self, row: DestinationRow, column: str) -> Hidden | None:
        stored = getattr(row, column)
        if stored is None:
            return None
        assert row.id is not None
        try:
            text = self.hand.keyring.decrypt(place_of(row.id, column), stored)
        except Undecryptable:
            text = None  # It differs from whatever is wanted: declaring it anew mends it.
        return Hidden(text, row.shown) if column == "url" else Hidden(text)

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
        kept = [name for name in SECRETS if getattr(wanted, f"{name}_kept")]
        found = next((one for one in there if one.key == wanted.name), None)
        return wanted.model_copy(update={name: _kept_text(wanted, found, name) for name in kept})

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


def _kept_text(wanted: DeclaredDestination, there: Thing | None, name: str) -> str:
    field = f"{name}_kept"
    if getattr(wanted, name) is not None:
        raise BadRequest(f"{field}: leave it out, or give no {name}: it is one or the other", field=field)
    found = None if there is None else there.fields[name]
    if found is None:
        raise BadRequest(
            f"{field}: destination {wanted.name!r} has no {name} that could be kept; name a file or a variable that "
            f"holds it ({name}_file, {name}_env)",
            field=field,
        )
    if found.text is None:
        raise BadRequest(f"{field}: the {name} that is there cannot be read any more; give it anew", field=field)
    return str(found.text)
