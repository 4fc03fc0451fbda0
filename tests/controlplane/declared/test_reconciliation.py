"""What is created, changed, removed and left, decided of values alone."""

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import DeclaredAction, FieldChange
from controlplane.declared.reconciliation import Files, Hidden, Thing, differences, reconcile

HERE = Files(frozenset({"a.toml"}), prune=False)


def thing(name: str, origin: str | None = "a.toml", number: int | None = None, **fields: object) -> Thing:
    return Thing(name, name, origin, fields, number)


def actions(wanted: list[Thing], there: list[Thing], files: Files = HERE) -> dict[str, str]:
    return {step.name: step.action.value for step in reconcile(wanted, there, files, "body.things")}


def test_each_action_has_its_case() -> None:
    there = [
        thing("same", number=1, limit=1),
        thing("other", number=2, limit=1),
        thing("by hand", None, 3),
        thing("elsewhere", "b.toml", 4),
        thing("gone", number=5),
        thing("by hand too", None, 6, limit=1),
    ]
    wanted = [thing("same", limit=1), thing("other", limit=2), thing("new"), thing("by hand too", limit=1)]
    decided = {"same": "unchanged", "other": "change", "new": "create", "by hand too": "unchanged"}
    assert actions(wanted, there) == {**decided, "gone": "leave"}
    assert actions(wanted, there, Files(frozenset({"a.toml"}), prune=True)) == {**decided, "gone": "remove"}


def test_a_folder_misses_files_that_are_gone_and_no_others() -> None:
    there = [thing("gone", "alerting/old.toml", 1), thing("near", "alerting-eu/old.toml", 2), thing("hand", None, 3)]
    assert actions([], there, Files(frozenset({"alerting/"}), prune=True)) == {"gone": "remove"}


def test_what_moves_to_another_file_belongs_to_it() -> None:
    moved, hand = reconcile(
        [thing("x", "b.toml"), thing("y", "b.toml")],
        [thing("x", "a.toml", 1), thing("y", None, 2)],
        HERE,
        "body.things",
    )
    assert moved.changes == [FieldChange(field="origin", old="a.toml", new="b.toml")]
    assert hand.action is DeclaredAction.UNCHANGED, "what a person made stays theirs"


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        (
            [thing("x"), thing("y"), thing("x", "b.toml")],
            [],
            "body.things.2.name: 'x' is declared twice, before in a.toml",
        ),
        (
            [thing("x")],
            [thing("x", None, 3), thing("x", None, 7)],
            r"body.things.0.name: 2 have the name 'x' \(numbers 3, 7",
        ),
    ],
)
def test_a_name_means_one_thing(wanted: list[Thing], there: list[Thing], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        reconcile(wanted, there, HERE, "body.things")


def test_differences_are_told_field_by_field() -> None:
    old = {"a": 1, "deep": {"b": [1], "c": None}, "labels": {"pool": "chat"}, "remedy": None}
    new = {"a": 1, "deep": {"b": [1, 2], "c": None}, "labels": {}, "remedy": {"policy": "propose"}}
    assert [(one.field, one.old, one.new) for one in differences(old, new)] == [
        ("deep.b", [1], [1, 2]),
        ("remedy.policy", None, "propose"),
        ("labels.pool", "chat", None),
    ]


def test_a_secret_is_compared_and_not_shown() -> None:
    assert list(differences({"secret": Hidden("a secret")}, {"secret": Hidden("a secret")})) == []
    changed = list(differences({"url": Hidden("https://a/x", "https://a/***")}, {"url": Hidden("https://a/y")}))
    assert [(one.old, one.new) for one in changed] == [("https://a/***", "***")]
    assert list(differences({"secret": Hidden(None)}, {"secret": Hidden(None)})), "what cannot be read equals nothing"
    assert "a secret" not in repr(Hidden("a secret"))
