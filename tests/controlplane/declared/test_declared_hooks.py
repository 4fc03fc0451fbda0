"""Hooks of pools as files declare them: known by pool and name, their secrets compared, and people's left."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.principal import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.changes.hooks import Hook, HookSettings
from controlplane.contract.errors import BadRequest, Forbidden
from controlplane.db import Database
from controlplane.keys.encryption import Key
from controlplane.rollouts.hooks import store
from controlplane.rollouts.hooks.tables import RolloutHookRow, place_of
from tests.controlplane.declared.conftest import NOW, Undone
from tests.controlplane.declared.declared_sets import HOOKS

HOOK = {"pool": "chat", "name": "load test", "kind": "event", "origin": "chat.toml", "url": "https://ci.example/x"}
Place = tuple[str, str]


def there(applies: Undone) -> dict[Place, Hook]:
    return {(one.pool, one.name): one for one in store.hooks(applies.session, before_id=None, limit=100)}


def set_by_hand(applies: Undone, **wanted: Any) -> None:
    wanted = {name: value for name, value in {**HOOK, **wanted}.items() if name != "origin"}
    store.set_hook(applies.session, HookSettings.model_validate(wanted), applies.keyring, actor="ada", now=NOW)


def declared(hooks: list[dict[str, Any]]) -> dict[Place, dict[str, Any]]:
    return {(str(one["pool"]), str(one["name"])): one for one in hooks}


@given(
    by_hand=st.lists(HOOKS, max_size=3),
    before=st.lists(HOOKS, max_size=4).map(declared),
    wanted=st.lists(HOOKS, max_size=4).map(declared),
    origins=st.sets(st.sampled_from(["one.toml", "two.toml"])),
    prune=st.booleans(),
)
def test_the_difference_is_what_is_done_and_nothing_else(
    database: Database,
    by_hand: list[dict[str, Any]],
    before: dict[Place, dict[str, Any]],
    wanted: dict[Place, dict[str, Any]],
    origins: set[str],
    prune: bool,
) -> None:
    with Undone(database) as applies:
        for one in by_hand:
            set_by_hand(applies, **one)
        applies(hooks=list(before.values()))
        was = there(applies)
        done = applies(hooks=list(wanted.values()), origins=sorted(origins), prune=prune)
        now, read = there(applies), origins | {str(one["origin"]) for one in wanted.values()}
        by_action: dict[str, set[str]] = {}
        for step in done.steps:
            by_action.setdefault(step.action.value, set()).add(step.name)

        gone = {place for place, one in was.items() if place not in wanted and one.origin in read}
        names = {"create": set(wanted) - set(was), "remove" if prune else "leave": gone}
        for action in ("create", "remove", "leave"):
            assert by_action.get(action, set()) == {f"{pool}: {name}" for pool, name in names.get(action, set())}
        assert set(now) == (set(was) | set(wanted)) - (gone if prune else set())
        for place in set(now) - set(wanted):
            assert now[place] == was[place], "what no file names stays as it is"
        for place, one in wanted.items():
            settings = HookSettings.model_validate({name: value for name, value in one.items() if name != "origin"})
            found = now[place].model_dump(include={"kind", "timeout_s", "retries", "on_silence"})
            assert found == settings.model_dump(include=set(found)) and now[place].signed == bool(settings.secret)
            assert now[place].origin == (None if place in was and was[place].origin is None else one["origin"])
        assert done.others == len(set(was) - set(wanted) - gone)
        again = applies(hooks=list(wanted.values()), origins=sorted(origins), prune=prune, dry_run=True)
        assert not again.changed, again.steps


def test_what_is_secret_is_compared_and_never_shown(applies: Undone) -> None:
    applies(hooks=[{**HOOK, "secret": "the-first-secret"}])
    for changes, field in (
        ({"secret": "the-other-secret"}, "secret"),
        ({"url": "https://ci.example/y", "secret": "the-first-secret"}, "url"),
        ({"secret": None}, "secret"),
    ):
        planned = applies(hooks=[{**HOOK, **changes}], dry_run=True)
        assert [one.field for one in planned.steps[0].changes] == [field]
        told = planned.model_dump_json()
        assert "the-" not in told and "ci.example/x" not in told and "ci.example/y" not in told
    kept = {name: value for name, value in HOOK.items() if name != "url"} | {"url_kept": True}
    assert not applies(hooks=[{**kept, "secret_kept": True}]).changed
    assert applies(hooks=[kept]).changed and not there(applies)["chat", "load test"].signed


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"secret": "short"}, "secret", "at least 8 characters"),
        ({"url": None}, "url", "say where the hook is"),
        ({"name": "new", "url": None, "url_kept": True}, "url_kept", "by url_file or url_env"),
        ({"url": "https://elsewhere.example/x", "secret_kept": True}, "secret_kept", "this is another place"),
        ({"url_kept": True}, "url_kept", "one or the other"),
    ],
)
def test_what_cannot_be_made_is_told_by_its_field(
    applies: Undone, changes: dict[str, Any], field: str, words: str
) -> None:
    applies(hooks=[{**HOOK, "secret": "the-first-secret"}])
    before = there(applies)
    for dry_run in (True, False):
        with pytest.raises(BadRequest, match=words) as refused:
            applies(hooks=[{**HOOK, "name": "other"}, {**HOOK, **changes}], dry_run=dry_run)
        assert [one["field"] for one in refused.value.detail["errors"]] == [f"body.hooks.1.{field}"]
    assert there(applies) == before


def test_a_pool_has_so_many(applies: Undone) -> None:
    many = [{**HOOK, "name": str(number)} for number in range(store.MOST)]
    applies(hooks=many)
    applies(hooks=[{**HOOK, "pool": "code"}])
    with pytest.raises(BadRequest, match=r"hooks.0.pool: 'chat' would have 11 hooks"):
        applies(hooks=[HOOK], dry_run=True)


def test_hooks_are_an_admins(applies: Undone) -> None:
    applies(hooks=[HOOK])
    applies.principal = Principal("ada", Scope.OPERATE, 1)
    for dry_run in (True, False):
        with pytest.raises(Forbidden):
            applies(hooks=[HOOK], dry_run=dry_run)
        with pytest.raises(Forbidden):
            applies(origins=["chat.toml"], prune=True, dry_run=dry_run)
    assert list(there(applies)) == [("chat", "load test")]


def test_one_that_nobody_can_read_any_more_is_declared_anew(applies: Undone) -> None:
    number = applies(hooks=[{**HOOK, "secret": "the-first-secret"}]).steps[0].id
    row = applies.session.get_one(RolloutHookRow, number)
    row.secret = Key(b"k" * 32).encrypt(place_of(row.id or 0, "secret"), "the-first-secret", b"n" * 12)
    with pytest.raises(BadRequest, match=r"hooks.0.secret_kept: the secret that is there cannot be read any more"):
        applies(hooks=[{**HOOK, "secret_kept": True}])
    done = applies(hooks=[{**HOOK, "secret": "the-first-secret"}])
    assert [one.field for one in done.steps[0].changes] == ["secret"]
    assert not applies(hooks=[{**HOOK, "secret": "the-first-secret"}]).changed
