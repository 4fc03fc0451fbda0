"""Hooks of rollouts as files of their pools declare them. Guarantee: what is secret is compared, and never shown; what
a file keeps is what is there, which must be."""

import json
from collections.abc import Mapping, Sequence

from sqlmodel import select

from controlplane.contract.bodies.access import Scope
from controlplane.contract.changes.hooks import HookSettings
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import DeclaredHook, DeclaredKind
from controlplane.contract.shown_url import masked
from controlplane.declared.declarable import Declarable, fields_of
from controlplane.declared.reconciliation import Hidden, Thing
from controlplane.rollouts.hooks import store
from controlplane.rollouts.hooks.checks import SECRETS, whole_hook
from controlplane.rollouts.hooks.tables import RolloutHookRow

KEPT = tuple(f"{name}_kept" for name in SECRETS)


class DeclaredHooks(Declarable[DeclaredHook]):
    kind = DeclaredKind.HOOK
    list_name = "hooks"
    scope = Scope.ADMIN

    def there(self) -> list[Thing]:
        return [self._kept(row) for row in self.hand.session.exec(select(RolloutHookRow))]

    def _kept(self, row: RolloutHookRow) -> Thing:
        found = store.secrets_of(row, self.hand.keyring)
        hidden = {
            name: None if secret is None else Hidden(secret.text, *([row.shown] if name == "url" else []))
            for name, secret in found.items()  # What cannot be read differs from all.
        }
        return Thing(
            key_of(row.pool, row.name),
            words_of(row.pool, row.name),
            row.origin,
            {**row.model_dump(include=set(HookSettings.model_fields) - set(SECRETS)), **hidden},
            row.id,
        )

    def check(self, wanted: DeclaredHook, there: Sequence[Thing]) -> None:
        self._whole(wanted, there)
        of_pool = {one.key for one in there if one.fields["pool"] == wanted.pool}
        of_pool |= {key_of(one.pool, one.name) for one in self.wanted if one.pool == wanted.pool}
        if len(of_pool) > store.MOST:
            raise BadRequest(
                f"pool: {wanted.pool!r} would have {len(of_pool)} hooks with those that are there, and "
                f"{store.MOST} is the most; remove some first",
                field="pool",
            )

    def thing(self, wanted: DeclaredHook, there: Sequence[Thing]) -> Thing:
        whole = self._whole(wanted, there)
        given = {
            **fields_of(whole, *SECRETS, *KEPT),
            "url": Hidden(whole.url, masked(whole.url or "")),
            "secret": None if whole.secret is None else Hidden(whole.secret),
        }
        return Thing(key_of(wanted.pool, wanted.name), words_of(wanted.pool, wanted.name), wanted.origin, given)

    def _whole(self, wanted: DeclaredHook, there: Sequence[Thing]) -> DeclaredHook:
        """With the secrets that it keeps. Raises `BadRequest` where there is none to keep, or one is given as well."""
        found = next((one for one in there if one.key == key_of(wanted.pool, wanted.name)), None)
        fields: Mapping[str, Hidden | None] = {} if found is None else {name: found.fields[name] for name in SECRETS}
        url = fields.get("url")
        return whole_hook(wanted, fields, "" if url is None else url.shown)

    def create(self, wanted: DeclaredHook) -> int:
        hand = self.hand
        return store.set_hook(
            hand.session, wanted, hand.keyring, actor=hand.actor, now=hand.now, origin=wanted.origin
        ).id

    def change(self, there: Thing, wanted: DeclaredHook) -> None:
        self.create(wanted)

    def remove(self, there: Thing) -> None:
        store.remove_hook(self.hand.session, there.id or 0, actor=self.hand.actor, now=self.hand.now)


def key_of(pool: str, name: str) -> str:
    return json.dumps([pool, name])


def words_of(pool: str, name: str) -> str:
    return f"{pool}: {name}"
