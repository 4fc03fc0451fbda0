"""`tailwright plan` and `tailwright apply` on a real service: two files, changes, pruning, and refusals that change
nothing."""

from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane

RULES = """
[[alert_rule]]
name = "First tokens"
pool = "chat"
severity = "ticket"
[alert_rule.condition]
kind = "absolute"
limits = [{ metric = "ttft", q = 0.95, limit_s = 0.8 }]
window_s = 60

[[alert_rule]]
name = "Requests lost"
[alert_rule.condition]
kind = "requests_failed"
allowed_share = 0.02
"""
PAGER = """
[[destination]]
name = "pager"
kind = "webhook"
url_env = "PAGER_URL"
secret_file = "pager.secret"
"""
ROOT = Path(__file__).resolve().parents[4]
URL, SECRET = "https://hooks.example.org/services/T0/very-hidden-part", "a-long-signing-secret"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files: rules, and a destination whose secrets lie elsewhere."""
    made = tmp_path / "alerting"
    made.mkdir()
    (made / "rules.toml").write_text(RULES)
    (made / "told.toml").write_text(PAGER)
    (made / "pager.secret").write_text(SECRET + "\n")
    monkeypatch.setenv("PAGER_URL", URL)
    return made


def test_what_is_declared_is_made_and_then_there_is_nothing_to_do(plane: Plane, folder: Path) -> None:
    before = plane.get("alert-rules")["items"]
    said = plane.run("plan", folder).stdout
    assert '+ alert rule "First tokens"  (alerting/rules.toml)' in said
    assert "~ alert rule" in said and "condition.allowed_share: 0.01 -> 0.02" in said
    assert "2 to create, 1 to change" in said
    assert plane.get("alert-rules")["items"] == before, "a plan changes nothing"
    plane.run("plan", folder, "--detailed-exitcode", status=2)

    assert "2 created, 1 changed" in plane.run("apply", folder).stdout
    rules = {one["name"]: one for one in plane.get("alert-rules")["items"]}
    assert rules["First tokens"]["origin"] == "alerting/rules.toml"
    assert rules["Requests lost"]["condition"]["allowed_share"] == 0.02
    assert rules["Requests lost"]["origin"] is None, "the file has not made it"
    assert [one["signed"] for one in plane.get("destinations")["items"]] == [True]

    assert "no changes (3 as declared" in plane.run("plan", folder, "--detailed-exitcode").stdout
    ledger = plane.get("ledger", limit=500)["items"]
    plane.run("apply", folder)
    assert plane.get("ledger", limit=500)["items"] == ledger, "nothing changed, nothing is recorded"
    applied = [one for one in ledger if one["kind"] == "alerting.applied"]
    assert [one["evidence"]["files"] for one in applied] == [["alerting/", "alerting/rules.toml", "alerting/told.toml"]]


@pytest.mark.slow
def test_only_what_its_file_made_is_removed_and_that_when_asked(plane: Plane, folder: Path) -> None:
    rules = folder / "rules.toml"
    plane.run("apply", folder / "told.toml", "-f", rules)
    rules.write_text("")
    assert "alert rule" in (left := plane.run("plan", rules).stdout) and "is left: its file lacks it now" in left
    assert "no changes" in left
    assert "1 to remove" in plane.run("plan", rules, "--prune").stdout
    names = {one["name"] for one in plane.get("alert-rules")["items"]}
    plane.run("apply", rules, "--prune")
    assert names - {one["name"] for one in plane.get("alert-rules")["items"]} == {"First tokens"}
    assert len(plane.get("destinations")["items"]) == 1, "it is of another file"


@pytest.mark.slow
def test_a_file_that_is_gone_from_its_folder_is_missed(plane: Plane, folder: Path) -> None:
    plane.run("apply", folder)
    (folder / "told.toml").unlink()
    assert '- destination 1 "pager"  (alerting/told.toml)' in plane.run("apply", folder, "--prune").stdout
    assert plane.get("destinations")["items"] == []


@pytest.mark.slow
def test_what_is_wrong_is_told_by_file_table_number_and_field(plane: Plane, folder: Path) -> None:
    before = plane.get("alert-rules"), plane.get("ledger", limit=500)
    rules = folder / "rules.toml"
    wrong = RULES.replace("window_s = 60", "window_s = 1") + '\n[[alert_rule]]\nname = "x"\nseverty = "page"\n'
    rules.write_text(wrong)
    said = plane.run("apply", folder, status=1).stderr
    assert f"{rules}: [[alert_rule]] 3 'x': severty: no such field, did you mean 'severity'?" in said
    rules.write_text(wrong.replace("severty", "severity"))
    said = plane.run("apply", folder, status=1).stderr
    assert f"{rules}: [[alert_rule]] 1 'First tokens': condition.window_s: " in said
    assert f"{rules}: [[alert_rule]] 3 'x': condition: is required, and missing" in said
    assert "nothing was changed" in said
    rules.write_text(RULES.replace("window_s = 60", "window = 60"))
    assert "condition.window: no such field, did you mean 'window_s'?" in plane.run("apply", folder, status=1).stderr
    rules.write_text(RULES.replace("First tokens", "Requests lost"))
    assert "'Requests lost' is declared twice" in plane.run("apply", folder, status=1).stderr
    rules.write_text("[[alert_rul]]\n")
    assert "[[alert_rul]]: no such table, did you mean 'alert_rule'?" in plane.run("plan", folder, status=1).stderr
    assert "cannot be read" in plane.run("plan", folder / "none.toml", status=1).stderr
    assert (plane.get("alert-rules"), plane.get("ledger", limit=500)) == before


@pytest.mark.slow
def test_secrets_are_never_shown_and_never_in_a_file(
    plane: Plane, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, seen = folder / "told.toml", []
    for file in (PAGER, PAGER + f'secret = "{SECRET}"\n', PAGER.replace('url_env = "PAGER_URL"', 'url_env = "NONE"')):
        told.write_text(file)
        for command in ("plan", "apply"):
            status = 0 if file is PAGER else 1
            seen.append(plane.run(command, told, "--json", status=status).output)
    assert "a secret does not stand in a file; name where it is: secret_file or secret_env" in seen[2]
    assert "url_env: the variable NONE is not set, or empty" in seen[4]
    told.write_text(PAGER)
    (folder / "pager.secret").write_text(SECRET + " of tomorrow")
    monkeypatch.setenv("PAGER_URL", URL + "/next")
    seen.append(plane.run("plan", told).stdout)
    assert 'secret: "***" -> "***"' in seen[-1] and 'url: "https://hooks.example.org/***" -> ' in seen[-1]
    seen.append(plane.run("apply", told).output)
    monkeypatch.setenv("PAGER_URL", "gopher://very-hidden-part")
    seen.append(plane.run("apply", told, status=1).output)
    seen.append(plane.http.get("/api/v1/ledger", params={"limit": 500}).text)
    assert not [text for text in seen if "very-hidden-part" in text or SECRET in text]


def test_a_secret_that_is_there_may_be_kept(plane: Plane, folder: Path) -> None:
    told = folder / "told.toml"
    kept = PAGER.replace('url_env = "PAGER_URL"', "url_kept = true").replace(
        'secret_file = "pager.secret"', "secret_kept = true"
    )
    told.write_text(kept)
    assert "url_kept: destination 'pager' has no url that could be kept" in plane.run("plan", told, status=1).stderr
    told.write_text(PAGER)
    plane.run("apply", told)
    told.write_text(kept + "per_minute = 5\n")
    assert "per_minute: nothing -> 5" in plane.run("apply", told).stdout
    told.write_text(PAGER + "per_minute = 5\n")
    assert "no changes" in plane.run("plan", told).stdout, "URL and secret are the ones that were there"


def test_a_plan_that_cannot_be_made_does_not_look_like_changes(plane: Plane, folder: Path) -> None:
    for arguments in (["--token-file", folder / "none"], ["--profile", "none"]):
        plane.token = ""
        assert plane.run("plan", folder, "--detailed-exitcode", *arguments, status=1).output


def test_the_documents_example_is_applied_as_it_stands(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = (ROOT / "docs/alerting-as-code.md").read_text().partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "example.toml"
    file.write_text(example)
    (tmp_path / "pager.secret").write_text(SECRET)
    monkeypatch.setenv("SLACK_WEBHOOK_URL", URL)
    assert f"{example.count('[[')} created (" in plane.run("apply", file).stdout
    assert "no changes" in plane.run("plan", file).stdout
