"""Files read: what they declare, by which origin, with secrets from elsewhere, and what is wrong in their own terms."""

from pathlib import Path

import pytest

from controlplane.command.alerting.alerting_files import TABLES, WrongFiles, read_files
from controlplane.contract.errors import BadRequest

ROUTE = '[[route]]\nname = "chat"\nowner = "ada"\n'
PAGER = '[[destination]]\nname = "pager"\n'


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_folder_is_an_origin_of_its_files_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "alerting"
    written(folder, "b.toml", ROUTE)
    written(folder, "a.toml", ROUTE.replace("chat", "rest"))
    written(folder, "notes.txt", "not TOML")
    found = read_files([folder])
    assert [(one["name"], one["origin"]) for one in found.lists["routes"]] == [
        ("rest", "alerting/a.toml"),
        ("chat", "alerting/b.toml"),
    ]
    assert found.origins == ["alerting/", "alerting/a.toml", "alerting/b.toml"]
    monkeypatch.chdir(folder)
    assert read_files([Path()]).origins == found.origins
    assert read_files([Path("b.toml")]).origins == ["b.toml"]
    with pytest.raises(WrongFiles, match=r"has no \*\.toml"):
        read_files([written(tmp_path / "empty", "x", "").parent])


def test_short_names_of_tables_mean_the_same(tmp_path: Path) -> None:
    text = '[[rule]]\nname = "a"\n[[alert_rule]]\nname = "b"\n[[inhibit]]\nname = "c"\n[[inhibit_rule]]\nname = "d"\n'
    lists = read_files([written(tmp_path, "a.toml", text)]).lists
    assert [one["name"] for one in lists["alert_rules"]] == ["a", "b"]
    assert [one["name"] for one in lists["inhibit_rules"]] == ["c", "d"]


def test_times_are_text_and_numbers_are_numbers(tmp_path: Path) -> None:
    silence = '[[silence]]\nends_at = 2030-01-01T00:00:00Z\nmatchers = { pool = "chat" }\n'
    assert read_files([written(tmp_path, "a.toml", silence)]).lists["silences"] == [
        {"ends_at": "2030-01-01T00:00:00+00:00", "matchers": {"pool": "chat"}, "origin": "a.toml"}
    ]
    with pytest.raises(WrongFiles, match=r"position: inf is not a number that can be sent"):
        read_files([written(tmp_path, "a.toml", ROUTE + "position = inf\n")])


def test_secrets_come_from_files_beside_it_and_from_variables(tmp_path: Path) -> None:
    written(tmp_path, "key", " hidden-1 \n")
    file = written(tmp_path, "a.toml", PAGER + 'secret_file = "key"\nurl_env = "URL"\ncallback_secret_kept = true\n')
    assert read_files([file], {"URL": "https://a.example/hidden-2"}).lists["destinations"] == [
        {
            "name": "pager",
            "secret": "hidden-1",
            "url": "https://a.example/hidden-2",
            "callback_secret_kept": True,
            "origin": "a.toml",
        }
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            'secret = "hidden-1"',
            "secret: a secret does not stand in a file; name where it is: secret_file or secret_env",
        ),
        ('callback_secret = "hidden-1"', "callback_secret: a secret does not stand in a file"),
        ('secret_fil = "key"', "secret_fil: no such field, did you mean 'secret_file'?"),
        ('secret_env = "NONE"', "secret_env: the variable NONE is not set, or empty"),
        ('secret_env = "EMPTY"', "secret_env: the variable EMPTY is not set, or empty"),
        ("secret_env = 7", "secret_env: wants a name as text"),
        ('secret_file = "none"', "secret_file: "),
        ('secret_file = "blank"', "is empty"),
        ('secret_file = "bytes"', "cannot be read: not text"),
        ('secret_env = "SET"\nsecret_file = "key"', "secret_file: secret_env is given too; keep one of them"),
        ('url = "https://a/hidden-1"\nurl_kept = true\nurl_env = "SET"', "url is given too"),
        ('origin = "mine"', "origin: no such field"),
    ],
)
def test_what_is_wrong_names_the_place_and_no_secret(tmp_path: Path, line: str, words: str) -> None:
    written(tmp_path, "key", "hidden-1")
    written(tmp_path, "blank", " \n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfehidden-1")
    file = written(tmp_path, "a.toml", ROUTE + PAGER + line + "\n")
    with pytest.raises(WrongFiles) as refused:
        read_files([file], {"SET": "hidden-1", "EMPTY": ""})
    assert len(refused.value.problems) == 1
    assert f"{file}: [[destination]] 1 'pager': " in refused.value.problems[0]
    assert words in refused.value.problems[0] and "hidden-1" not in refused.value.message


HOOK = '[pool]\nname = "chat"\n[[hook]]\nname = "load test"\nkind = "event"\n'


def test_a_hook_is_of_its_files_pool_with_its_secrets_from_elsewhere(tmp_path: Path) -> None:
    written(tmp_path, "key", "hidden-1\n")
    file = written(tmp_path, "chat.toml", HOOK + 'url_env = "URL"\nsecret_file = "key"\nretries = 0\n')
    assert read_files([file], {"URL": "https://ci.example/hidden-2"}).lists["hooks"] == [
        {
            "name": "load test",
            "kind": "event",
            "url": "https://ci.example/hidden-2",
            "secret": "hidden-1",
            "retries": 0,
            "pool": "chat",
            "origin": "chat.toml",
        }
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('secret = "hidden-1"', "a secret does not stand in a file; name where it is: secret_file or secret_env"),
        ('pool = "code"', "pool: it is of the file's pool; leave it out"),
        ("on_silent = 1", "on_silent: no such field, did you mean 'on_silence'?"),
        ('secret_env = "NONE"', "secret_env: the variable NONE is not set, or empty"),
        ('callback_secret_env = "SET"', "callback_secret_env: no such field"),
    ],
)
def test_what_is_wrong_with_a_hook_names_the_place_and_no_secret(tmp_path: Path, line: str, words: str) -> None:
    file = written(tmp_path, "chat.toml", HOOK + line + "\n")
    with pytest.raises(WrongFiles) as refused:
        read_files([file], {"SET": "hidden-1"})
    (problem,) = refused.value.problems
    assert problem.startswith(f"{file}: [[hook]] 1 'load test': ") and words in problem and "hidden-1" not in problem


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    one = written(tmp_path, "a.toml", ROUTE + 'ower = "x"\n[[rout]]\n[[route]]\nnme = "y"\n')
    two = written(tmp_path, "b.toml", "[[route]\n")
    three = written(tmp_path, "c.toml", 'route = "x"\n')
    with pytest.raises(WrongFiles) as refused:
        read_files([one, two, three, tmp_path / "none.toml"])
    found = refused.value.problems
    assert found[0] == f"{one}: [[route]] 1 'chat': ower: no such field, did you mean 'owner'?"
    assert found[1] == f"{one}: [[route]] 2: nme: no such field, did you mean 'name'?"
    assert "[[rout]]: no such table, did you mean 'route'?" in found[2]
    assert str(two) in found[3] and "cannot be read" in found[3]
    assert "route: wants tables, each as [[route]]" in found[4] and "none.toml cannot be read" in found[5]


def test_what_the_service_refuses_is_put_into_the_files_terms(tmp_path: Path) -> None:
    rule = '[[rule]]\nname = "a"\n[[rule]]\nname = "b"\n[rule.condition]\nkind = "drift"\nfor_s = -1\n'
    found = read_files([written(tmp_path, "a.toml", rule)])
    place = f"{tmp_path}/a.toml: [[rule]] 2 'b'"
    problems = [
        {"field": "body.alert_rules.1.condition.drift.for_s", "message": "wants more"},
        {"field": "body.alert_rules.1", "message": "is odd"},
        {"field": "body", "message": "is too deep"},
    ]
    assert found.told(BadRequest("all", errors=problems)) == [
        f"{place}: condition.for_s: wants more",
        f"{place}: is odd",
        "body: is too deep",
    ]
    alone = BadRequest("body.alert_rules.1.nme: no such field", field="body.alert_rules.1.nme")
    assert found.told(alone) == [f"{place}: nme: no such field"]


def test_each_kind_has_its_table_and_no_field_that_could_hold_a_secret_but_a_url() -> None:
    assert {table.list_name for table in TABLES.values()} == {
        *("alert_rules", "routes", "inhibit_rules", "silences", "destinations", "hooks"),
    }
    assert not {"secret", "origin", "pool"} & set(TABLES["hook"].fields)
    assert {"url", "url_file", "url_env", "url_kept", "secret_env", "secret_kept"} <= set(TABLES["hook"].fields)
    assert not {"secret", "callback_secret", "origin"} & set(TABLES["destination"].fields)
    assert {"url", "url_file", "url_env", "url_kept"} <= set(TABLES["destination"].fields)
