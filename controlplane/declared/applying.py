"""A declared set applied: checked whole, compared, and carried out, in the caller's transaction.

Guarantees: nothing is touched unless everything is right; a dry run takes the same way and stops before the first
change; two who apply at once do it one after the other.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import text
from sqlmodel import Session

from controlplane import ledger
from controlplane.auth.principal import Principal, check_scope
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import (
    AlertingChanges,
    AlertingSet,
    DeclaredAction,
    DeclaredStep,
)
from controlplane.declared.declarable import Declarable, Hand
from controlplane.declared.declared_destinations import DeclaredDestinations
from controlplane.declared.declared_hooks import DeclaredHooks
from controlplane.declared.declared_inhibit_rules import DeclaredInhibitRules
from controlplane.declared.declared_routes import DeclaredRoutes
from controlplane.declared.declared_rules import DeclaredRules
from controlplane.declared.declared_silences import DeclaredSilences
from controlplane.declared.reconciliation import Files, Step, Thing, reconcile

LEDGER_KIND = "alerting.applied"
DONE = {DeclaredAction.CREATE: "created", DeclaredAction.CHANGE: "changed", DeclaredAction.REMOVE: "removed"}
"""What changes something, in words."""
MOST_NAMED = 100
"""Things that the ledger's entry names."""
_LOCK_KEY = 0x6465636C61726564  # "declared": any constant, the same in every replica.


def apply(wanted: AlertingSet, hand: Hand, principal: Principal) -> AlertingChanges:
    """Make it so, or say what that would be. Raises `BadRequest`, `Forbidden`."""
    _wait_for_others(hand.session)
    kinds: list[Declarable[Any]] = [
        DeclaredRules(wanted.alert_rules, hand),
        DeclaredRoutes(wanted.routes, hand),
        DeclaredInhibitRules(wanted.inhibit_rules, hand),
        DeclaredSilences(wanted.silences, hand),
        DeclaredDestinations(wanted.destinations, hand),
        DeclaredHooks(wanted.hooks, hand),
    ]
    _check_scopes(principal, (one for one in kinds if one.wanted))
    there = {one.kind: one.there() for one in kinds}
    _refuse([problem for one in kinds for problem in one.problems(there[one.kind])])
    files = Files(frozenset({*wanted.origins, *(item.origin for one in kinds for item in one.wanted)}), wanted.prune)
    decided = [(one, step) for one in kinds for step in _decide(one, there[one.kind], files)]
    _check_scopes(principal, (one for one, step in decided if step.action in DONE))
    told = [_carried_out(one, step, dry_run=wanted.dry_run) for one, step in decided]
    if not wanted.dry_run:
        _tell(hand, told, sorted(files.names))
    known = sum(step.there is not None for _, step in decided)
    return AlertingChanges(
        dry_run=wanted.dry_run,
        changed=any(step.action in DONE for step in told),
        steps=told,
        others=sum(len(found) for found in there.values()) - known,
    )


def _check_scopes(principal: Principal, kinds: Iterable[Declarable[Any]]) -> None:
    for one in kinds:
        check_scope(principal, one.scope)


def _wait_for_others(session: Session) -> None:
    # SQLite needs nothing: its transactions here begin with the write lock.
    if session.get_bind().dialect.name != "sqlite":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})


def _refuse(problems: Sequence[dict[str, str]]) -> None:
    if not problems:
        return
    message = "; ".join(f"{one['field']}: {one['message']}" for one in problems[:3])
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    raise BadRequest(message + more, field=problems[0]["field"], errors=list(problems))


def _decide(one: Declarable[Any], there: Sequence[Thing], files: Files) -> list[Step]:
    return reconcile(one.things(there), there, files, one.place, one.identity)


def _carried_out(one: Declarable[Any], step: Step, *, dry_run: bool) -> DeclaredStep:
    """What is told of a step, done by then."""
    number = None if step.there is None else step.there.id
    if not dry_run and step.action in DONE:
        number = _done(one, step)
    return DeclaredStep(
        kind=one.kind,
        name=step.name,
        id=number,
        origin=step.origin,
        action=step.action,
        changes=list(step.changes),
    )


def _done(one: Declarable[Any], step: Step) -> int | None:
    """The thing's number."""
    wanted = None if step.wanted is None else one.wanted[step.wanted]
    if step.there is None:
        return one.create(wanted)
    if wanted is None:
        one.remove(step.there)
    else:
        one.change(step.there, wanted)
    return step.there.id


def _tell(hand: Hand, told: Sequence[DeclaredStep], files: Sequence[str]) -> None:
    """In the ledger, beside the entry of each thing; nothing where nothing changed."""
    done = [step for step in told if step.action in DONE]
    if not done:
        return
    count = Counter(step.action for step in done)
    words = ", ".join(f"{count[action]} {word}" for action, word in DONE.items() if count[action])
    names = [f"{step.action.value} {step.kind.value} {step.name!r}" for step in done[:MOST_NAMED]]
    message = f"{', '.join(files)}: {words}"
    ledger.append(
        hand.session, hand.now, hand.actor, LEDGER_KIND, "alerting", message[:500], files=list(files), steps=names
    )
