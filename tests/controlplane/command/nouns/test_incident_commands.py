"""`tailwright incidents`: from two rules that fire to one incident, looked at, split, merged, closed and written up."""

from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane
from tests.peers import Service, send_judged
from tests.processes import wait_for

RULE = """
name = "{name}"
pool = "chat"
severity = "{severity}"
[condition]
kind = "absolute"
limits = [{{ metric = "ttft", q = {q}, limit_s = 0.01 }}]
for_s = 0
min_count = 1
"""


@pytest.mark.slow
def test_an_incident_from_its_opening_to_its_post_mortem(plane: Plane, tmp_path: Path) -> None:
    assert "no open incident" in plane.run("incidents", "list").stderr
    plane.enrol("a", "chat")
    plane.enrol("b", "chat")
    plane.post("routes", {"name": "chat", "matchers": {"pool": "chat"}, "owner": "team-chat"})
    for name, severity, q in (("first tokens", "ticket", 0.99), ("half of them", "page", 0.5)):
        path = tmp_path / "rule.toml"
        path.write_text(RULE.format(name=name, severity=severity, q=q))
        plane.run("rules", "create", path)
    send_judged(Service(plane.url, plane.token, plane.http), "chat")
    wait_for("both are one incident", lambda: [one["alerts"] for one in plane.get("incidents")["items"]] == [2])
    listed = plane.run("incidents", "list").stdout
    assert "team-chat" in listed and "page" in listed and "2 of 2 fire" in listed
    assert plane.json("incidents", "list") == plane.get("incidents")
    assert plane.json("incidents", "list", "--pool", "other")["items"] == []

    assert "is acknowledged by" in plane.run("incidents", "ack", 1, "--comment", "looking").stdout
    assert "note 2 on incident 1" in plane.run("incidents", "note", 1, "revision 2 | was taken back").stdout
    said = plane.run("incidents", "show", 1).stdout
    assert said.startswith("TTFT") and "it is the first" in said and "looks at it" in said
    assert plane.json("incidents", "show", 1)["members"][0]["alert"]["rule"] == "half of them"

    member = plane.json("incidents", "show", 1)["members"][1]["alert"]["id"]
    assert "incident 2 has 1 alerts of incident 1" in plane.run("incidents", "split", 1, member).stdout
    assert plane.json("incidents", "merge", 1, 2)["alerts"] == 2
    assert "cannot be merged into itself" in plane.run("incidents", "merge", 1, 1, status=1).stderr
    assert "was of the cause load" in plane.run("incidents", "cause", 1, "load", "--comment", "a batch job").stdout
    said = plane.run("incidents", "show", 1).stdout
    assert "Confirmed by" in said and "the cause was load: a batch job" in said
    assert "load" in plane.run("incidents", "cause", 1, "the-moon", status=2).stderr
    assert "is resolved after" in plane.run("incidents", "resolve", 1, "--reason", "a test").stdout
    assert plane.json("incidents", "list")["items"] == []
    assert [one["id"] for one in plane.json("incidents", "list", "--ended")["items"]] == [2, 1]
    text = plane.run("incidents", "post-mortem", 1).stdout
    assert text.startswith("# Post-mortem: incident 1") and "revision 2 \\| was taken back" in text
    assert "404" in plane.run("incidents", "show", 4711, status=1).stderr
