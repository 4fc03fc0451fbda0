"""Silences as files declare them: known by what they match, for they have no name.

Guarantees: one whose time has passed is as good as done, so that a file may keep it; one that a person made is never
changed: it counts as the file's where it is the same in everything.
"""

import json
from collections.abc import Sequence
from datetime import UTC

from controlplane.alerts import store
from controlplane.alerts.checks import check_end, check_silenced
from controlplane.contract.bodies.alerts import SilenceCreate, Silenced
from controlplane.contract.on_call.declared_alerting import DeclaredKind, DeclaredSilence
from controlplane.declared.declarable import Declarable
from controlplane.declared.reconciliation import Thing


class DeclaredSilences(Declarable[DeclaredSilence]):
    kind = DeclaredKind.SILENCE
    list_name = "silences"
    identity = "matchers"

    def there(self) -> list[Thing]:
        """Those that last. A person's has a key of its own unless it is wanted just so, and no file made one."""
        found = store.silences_now(self.hand.session, self.hand.now)
        taken = {key_of(one) for one in found if one.origin is not None}
        wanted = {(key_of(one), *_fields(one).values()) for one in self.wanted if one.ends_at.tzinfo is not None}
        things = []
        for one in found:
            key, fields = key_of(one), _fields(one)
            if one.origin is None and (key in taken or (key, *fields.values()) not in wanted):
                key = f"{key} {one.id}"
            taken.add(key)
            things.append(Thing(key, words_of(one), one.origin, fields, one.id))
        return things

    def check(self, wanted: DeclaredSilence, there: Sequence[Thing]) -> None:
        check_silenced(wanted)
        check_end(wanted)

    def thing(self, wanted: DeclaredSilence, there: Sequence[Thing]) -> Thing:
        is_over = wanted.ends_at <= self.hand.now
        return Thing(key_of(wanted), words_of(wanted), wanted.origin, _fields(wanted), is_over=is_over)

    def create(self, wanted: DeclaredSilence) -> int:
        hand = self.hand
        return store.create_silence(hand.session, wanted, actor=hand.actor, now=hand.now, origin=wanted.origin).id

    def change(self, there: Thing, wanted: DeclaredSilence) -> None:
        hand, number = self.hand, there.id or 0
        if wanted.ends_at <= hand.now:
            self.remove(there)
            return
        store.change_silence(hand.session, number, wanted, actor=hand.actor, now=hand.now, origin=wanted.origin)

    def remove(self, there: Thing) -> None:
        """It ends now, and stays in the list of those that have."""
        store.end_silence(self.hand.session, there.id or 0, actor=self.hand.actor, now=self.hand.now)


def key_of(silence: Silenced) -> str:
    return json.dumps([silence.matchers, silence.patterns], sort_keys=True)


def words_of(silence: Silenced) -> str:
    """As people write it: pool=chat node=~gpu-.*"""
    found = [f"{label}={value}" for label, value in sorted(silence.matchers.items())]
    return " ".join([*found, *(f"{label}=~{text}" for label, text in sorted(silence.patterns.items()))])


def _fields(silence: SilenceCreate) -> dict[str, str]:
    """What can be changed of one that matches the same."""
    return {"ends_at": silence.ends_at.astimezone(UTC).isoformat(), "comment": silence.comment}
