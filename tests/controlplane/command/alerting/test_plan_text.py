"""A plan in words: a mark and a line a thing, each field that differs, what is left, and the sum."""

from typing import Any

from controlplane.command.alerting.plan_text import plan_lines
from controlplane.contract.on_call.declared_alerting import AlertingChanges, DeclaredStep


def step(action: str, name: str, **more: Any) -> DeclaredStep:
    told = {"kind": "alert_rule", "origin": "a.toml", "action": action, "name": name}
    return DeclaredStep.model_validate({**told, **more})


STEPS = [
    step("leave", "old", id=3),
    step("unchanged", "same", id=4),
    step("create", 'a "new" one'),
    step("change", "other", id=5, changes=[{"field": "remedy.policy", "old": None, "new": "propose"}]),
    step("remove", "gone", id=6, kind="route"),
    step("over", "pool=chat", kind="silence"),
]


def test_what_changes_comes_first_and_the_sum_last() -> None:
    found = AlertingChanges(dry_run=True, changed=True, steps=STEPS, others=2)
    assert list(plan_lines(found)) == [
        '+ alert rule "a \\"new\\" one"  (a.toml)',
        '~ alert rule 5 "other"  (a.toml)',
        '    remedy.policy: nothing -> "propose"',
        '- route 6 "gone"  (a.toml)',
        '  alert rule 3 "old"  (a.toml) is left: its file lacks it now; --prune removes it',
        '  silence "pool=chat"  (a.toml) is over: its time has passed',
        "1 to create, 1 to change, 1 to remove (1 as declared, 2 not of these files)",
    ]


def test_what_was_done_is_told_as_done() -> None:
    done = AlertingChanges(dry_run=False, changed=True, steps=STEPS[2:3], others=0)
    assert list(plan_lines(done))[-1] == "1 created (0 as declared, 0 not of these files)"
    none = AlertingChanges(dry_run=False, changed=False, steps=STEPS[1:2], others=0)
    assert list(plan_lines(none)) == ["no changes (1 as declared, 0 not of these files)"]
