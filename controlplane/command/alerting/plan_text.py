"""What a declared set changes, in words: a line a thing, a line a field that differs, and the sum. Pure."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from controlplane.contract.on_call.declared_alerting import AlertingChanges, DeclaredAction, DeclaredStep, FieldChange

MARKS = {DeclaredAction.CREATE: "+", DeclaredAction.CHANGE: "~", DeclaredAction.REMOVE: "-"}
SUMS = {
    False: {"create": "created", "change": "changed", "remove": "removed"},
    True: {"create": "to create", "change": "to change", "remove": "to remove"},
}
"""What the sum says of them, and before anything is done."""


def plan_lines(found: AlertingChanges) -> Iterator[str]:
    """What changes first, then what is left although its file lacks it now, then the sum."""
    for step in found.steps:
        if step.action in MARKS:
            yield f"{MARKS[step.action]} {_named(step)}"
            yield from (f"    {_change(change)}" for change in step.changes)
    for step in found.steps:
        if step.action is DeclaredAction.LEAVE:
            yield f"  {_named(step)} is left: its file lacks it now; --prune removes it"
        elif step.action is DeclaredAction.OVER:
            yield f"  {_named(step)} is over: its time has passed"
    yield sum_of(found)


def sum_of(found: AlertingChanges) -> str:
    count = Counter(step.action.value for step in found.steps)
    words = SUMS[found.dry_run]
    done = ", ".join(f"{count[action]} {word}" for action, word in words.items() if count[action])
    same = f"{count['unchanged']} as declared, {found.others} not of these files"
    return f"{done} ({same})" if done else f"no changes ({same})"


def _named(step: DeclaredStep) -> str:
    number = "" if step.id is None else f" {step.id}"
    origin = "" if step.origin is None else f"  ({step.origin})"
    return f"{step.kind.value.replace('_', ' ')}{number} {json.dumps(step.name, ensure_ascii=False)}{origin}"


def _change(change: FieldChange) -> str:
    return f"{change.field}: {_value(change.old)} -> {_value(change.new)}"


def _value(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
