"""What must be done so that things are as files declare them (reconciliation). Pure.

Guarantees: nothing is removed but what a file made that was read again and lacks it now, and that only where it is
asked for; what was made otherwise is changed where a file names it, and never removed; once the steps are done, the
same declaration asks for none.
"""

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import DeclaredAction, FieldChange
from controlplane.contract.shown_url import HIDDEN


@dataclass(frozen=True, eq=False)
class Hidden:
    """A secret that may be compared and not shown. text: None where it cannot be read; such a one equals none."""

    text: str | None = field(repr=False)
    shown: str = HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hidden) or self.text is None or other.text is None:
            return False
        return hmac.compare_digest(self.text.encode(), other.text.encode())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Thing:
    """Something wanted, or there. key: its identity; name: that in words. origin: the file that made it.

    id: of one that is there. is_over: its time has passed, so that it need not be there.
    """

    key: str
    name: str
    origin: str | None
    fields: Mapping[str, Any]
    id: int | None = None
    is_over: bool = False


@dataclass(frozen=True)
class Step:
    """wanted: its place in the declaration, None where it is declared no more; there: what is there of it."""

    action: DeclaredAction
    name: str
    origin: str | None
    wanted: int | None
    there: Thing | None
    changes: Sequence[FieldChange] = ()


@dataclass(frozen=True)
class Files:
    """Those that were read. A name that ends with / is a folder: what any file of it made counts, also one that is
    gone."""

    names: frozenset[str]
    prune: bool

    def made(self, thing: Thing) -> bool:
        """Whether one of them made it."""
        if thing.origin is None:
            return False
        return thing.origin in self.names or any(
            thing.origin.startswith(name) for name in self.names if name.endswith("/")
        )


def reconcile(
    wanted: Sequence[Thing], there: Sequence[Thing], files: Files, place: str, identity: str = "name"
) -> list[Step]:
    """The steps for the things of one kind, as they are declared, then what is not declared any more. Raises
    `BadRequest`; place: of the wanted ones in the request; identity: the field that they are known by."""
    refuse_twice(wanted, place, identity)
    by_key: dict[str, list[Thing]] = {}
    for one in there:
        by_key.setdefault(one.key, []).append(one)
    steps = []
    for number, one in enumerate(wanted):
        same = by_key.pop(one.key, [])
        if len(same) > 1:
            field, numbers = f"{place}.{number}.{identity}", ", ".join(str(other.id) for other in same)
            raise BadRequest(
                f"{field}: {len(same)} have the name {one.name!r} (numbers {numbers}): delete or rename all but one",
                field=field,
            )
        steps.append(_step(number, one, same[0] if same else None))
    gone = [one for same in by_key.values() for one in same if files.made(one)]
    action = DeclaredAction.REMOVE if files.prune else DeclaredAction.LEAVE
    return [*steps, *(Step(action, one.name, one.origin, None, one) for one in gone)]


def refuse_twice(wanted: Sequence[Thing], place: str, identity: str) -> None:
    first: dict[str, int] = {}
    for number, one in enumerate(wanted):
        before = first.setdefault(one.key, number)
        if before != number:
            field, origin = f"{place}.{number}.{identity}", wanted[before].origin
            raise BadRequest(f"{field}: {one.name!r} is declared twice, before in {origin}", field=field)


def _step(number: int, wanted: Thing, there: Thing | None) -> Step:
    if there is None:
        action = DeclaredAction.OVER if wanted.is_over else DeclaredAction.CREATE
        return Step(action, wanted.name, wanted.origin, number, None)
    changes = list(differences(there.fields, wanted.fields))
    if there.origin is not None and there.origin != wanted.origin:
        changes.append(FieldChange(field="origin", old=there.origin, new=wanted.origin))
    action = DeclaredAction.CHANGE if changes else DeclaredAction.UNCHANGED
    return Step(action, wanted.name, wanted.origin, number, there, changes)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    """Each field whose value differs, those of objects by their path."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    for path in dict.fromkeys((*after, *before)):
        was, wanted = before.get(path), after.get(path)
        if was != wanted:
            yield FieldChange(field=path, old=_shown(was), new=_shown(wanted))


def _leaves(value: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{within}{name}.")
        else:
            yield f"{within}{name}", item


def _shown(value: Any) -> Any:
    return value.shown if isinstance(value, Hidden) else value
