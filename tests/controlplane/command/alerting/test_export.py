"""`tailwright alerting export`: a plan of it says "no changes", and nothing secret is in it."""

from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane

URL, SECRET = "https://hooks.example.org/services/very-hidden-part", "a-long-signing-secret"


@pytest.mark.slow
def test_a_plan_of_what_is_exported_has_no_changes(plane: Plane, tmp_path: Path) -> None:
    plane.run("routes", "create", "chat", "--owner", "team-chat", "--match", "pool=chat", "--position", 10)
    plane.run("routes", "create", 'rest "of" all', "--owner", "platform", "--any-pool")
    plane.run(
        *("inhibit-rules", "create", "pages before tickets", "--source", "severity=page"),
        *("--target-re", "severity=ticket|page"),
    )
    for hours, comment in ((2, "a move"), (4, "a longer move"), (3, "another")):
        plane.run("silences", "create", "--match", "pool=chat", "--for", f"{hours}h", "--comment", comment)
    only = {"matchers": {"severity": "page"}, "patterns": {"pool": "chat-.*"}}
    pager = {"name": "pager", "url": URL, "secret": SECRET, "title_template": "{{ pool }}\n\u2028 'é' \x7f"}
    plane.post("destinations", {**pager, "only": only})
    plane.post("destinations", {"name": "duty", "kind": "pagerduty", "secret": "a routing key", "enabled": False})
    rule = {"name": "mended", "condition": {"kind": "regression"}, "remedy": {"study": {"pool": "chat"}}}
    plane.post("alert-rules", rule)

    file = tmp_path / "all.toml"
    plane.run("alerting", "export", "--out", file)
    text = file.read_text(encoding="utf-8")
    assert text == plane.run("alerting", "export").stdout
    assert "very-hidden-part" not in text and SECRET not in text and "a routing key" not in text
    assert "no changes" in plane.run("plan", file, "--detailed-exitcode", "--prune").stdout
    plane.run("apply", file)
    assert "no changes" in plane.run("plan", file, "--detailed-exitcode").stdout

    file.write_text(text.replace('owner = "team-chat"', 'owner = "team-bot"'))
    assert 'owner: "team-chat" -> "team-bot"' in plane.run("plan", file).stdout


@pytest.mark.slow
def test_what_no_file_can_tell_apart_is_refused(plane: Plane) -> None:
    for _ in range(2):
        plane.run("routes", "create", "chat", "--owner", "team-chat")
    assert "two have the name 'chat'" in plane.run("alerting", "export", status=1).stderr
    assert "no route 9" in plane.run("routes", "delete", 9, status=1).stderr
    plane.run("routes", "delete", 2)
    assert "[[route]]" in plane.run("alerting", "export").stdout


@pytest.mark.slow
def test_routes_and_inhibit_rules_come_and_go(plane: Plane) -> None:
    assert "no route" in plane.run("routes", "list").stderr
    plane.run("routes", "create", "rest", "--owner", "platform")
    plane.run("routes", "create", "chat", "--owner", "team-chat", "--match", "pool=chat", "--position", 5)
    assert [one["name"] for one in plane.json("routes", "list")["items"]] == ["chat", "rest"], "as they are asked"
    assert "every alert" in plane.run("routes", "list").stdout
    assert "--match: pool is given twice" in (
        plane.run("routes", "create", "x", "--owner", "a", "--match", "pool=a", "--match", "pool=b", status=2).stderr
    )
    made = plane.run("inhibit-rules", "create", "x", "--source", "severity=page", "--target", "kind=symptom").stdout
    assert "while severity=page, kind=symptom is not told" in made
    assert "source.matchers" in plane.run("inhibit-rules", "create", "y", "--target", "a=b", status=1).stderr
    assert plane.json("inhibit-rules", "list")["items"][0]["equal"] == ["pool"]
    plane.run("inhibit-rules", "delete", 1)
    assert plane.json("inhibit-rules", "list")["items"] == []
