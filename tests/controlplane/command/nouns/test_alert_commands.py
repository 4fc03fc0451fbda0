"""`tailwright rules`, `alerts`, `silences` and `destinations`: from a rule in a file to its alert kept quiet."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.command.nouns.plane import Plane
from tests.peers import Service, send_judged
from tests.processes import free_port, wait_for

UNTIL, WHY = "2030-01-01T00:00:00Z", ("--comment", "known")
RULE = """
name = "first tokens"
pool = "chat"
severity = "ticket"
[condition]
kind = "absolute"
limits = [{ metric = "ttft", q = 0.99, limit_s = 0.01 }]
for_s = 0
min_count = 1
"""


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "rule.toml"
    path.write_text(RULE)
    return path


@pytest.fixture
def receiver() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_a_rule_is_made_changed_and_deleted(plane: Plane, rule_file: Path) -> None:
    made = plane.json("rules", "create", rule_file)
    number = made["id"]
    assert made == plane.json("rules", "show", number) and plane.json("rules", "list") == plane.get("alert-rules")
    assert "limit   10 ms" in plane.run("rules", "show", number).stdout
    assert "first tokens" in plane.run("rules", "list").stdout
    changed = plane.json("rules", "update", number, "-", given=json.dumps({**made, "enabled": False}))
    assert changed == {**made, "enabled": False}
    rule_file.write_text(RULE.replace("severity", "severty"))
    assert "did you mean 'severity'" in plane.run("rules", "update", number, rule_file, status=1).stderr
    rule_file.write_text("nonsense")
    assert "cannot be read" in plane.run("rules", "create", rule_file, status=2).stderr
    assert "wants a JSON object" in plane.run("rules", "create", "-", status=2, given="[]").stderr
    assert plane.run("rules", "delete", number, "--json").stdout == ""
    for command in (("show", number), ("delete", number), ("update", number, "-")):
        assert "404" in plane.run("rules", *command, status=1, given=json.dumps(made)).stderr


@pytest.mark.slow
def test_an_alert_is_shown_and_silenced(plane: Plane, rule_file: Path) -> None:
    hook = plane.json("destinations", "create", "hook", "--url", f"http://127.0.0.1:{free_port()}/hook")["id"]
    # A rule looks at nodes that are enrolled; those that send telemetry here were not.
    plane.enrol("a", "chat")
    plane.enrol("b", "chat")
    send_judged(Service(plane.url, plane.token, plane.http), "chat")
    rule = plane.json("rules", "create", rule_file)["id"]
    wait_for("the rule fires", lambda: plane.get("alerts")["items"])
    alert = plane.get("alerts")["items"][0]
    number = alert["id"]
    listed = plane.run("alerts", "list").stdout
    assert "first tokens" in listed and "limit 10 ms" in listed
    assert plane.json("alerts", "show", number)["fingerprint"] == alert["fingerprint"]
    said = plane.run("alerts", "show", number).stdout
    assert said.startswith("TTFT p99 is 2") and "pool" in said
    assert "\nobserved 2" in said and "\nlimit or baseline 10 ms\n" in said and "\nhow sure: " in said
    wait_for("it is of an incident", lambda: plane.get(f"incidents?alert_id={number}")["items"])
    assert "\nincident 1 open\n" in plane.run("alerts", "show", number).stdout
    wait_for("it was tried", lambda: plane.get("deliveries")["items"][0]["attempts"])
    assert "waiting" in plane.run("destinations", "show", hook).stdout
    told = plane.run("alerts", "show", number).stdout.splitlines()
    assert any(line.split()[:3] == ["hook", "firing", "waiting"] for line in told)
    silence = plane.json("silences", "create", "--alert", number, "--for", "2h", "--comment", "known")
    assert silence["matchers"] == alert["labels"]
    assert plane.json("silences", "list") == plane.get("silences")
    assert silence == plane.json("silences", "show", silence["id"])
    assert "is over" in plane.run("silences", "expire", silence["id"]).stdout
    assert plane.json("silences", "list")["items"] == []
    assert [one["id"] for one in plane.json("silences", "list", "--ended")["items"]] == [silence["id"]]
    plane.run("rules", "delete", rule)
    wait_for("it is resolved", lambda: plane.get(f"alerts/{number}")["resolved_at"])
    assert plane.json("alerts", "list")["items"] == []
    assert number in [one["id"] for one in plane.json("alerts", "list", "--ended")["items"]]
    assert "404" in plane.run("alerts", "show", 4711, status=1).stderr


def test_a_silence_wants_labels_and_an_end(plane: Plane) -> None:
    made = plane.run(
        "silences", "create", "--match", "pool=chat", "--match-re", "node=gpu-.*", "--until", UNTIL, *WHY
    ).stdout
    assert "pool=chat node=~gpu-.* until 2030-01-01 00:00:00Z" in made
    assert "no open alert that matches" in plane.run("silences", "preview", "--match-re", "pool=nobody.*").stderr
    wrong = plane.run("silences", "create", "--match-re", "pool=(", "--for", "2h", *WHY, status=1).stderr
    assert "patterns.pool" in wrong and "without its" in wrong
    for arguments, told in (
        (["--for", "2h"], "say what is silenced"),
        (["--match", "pool=chat", "--alert", "1", "--for", "2h"], "say what is silenced"),
        (["--match", "pool=chat"], "say how long"),
        (["--match", "pool=chat", "--for", "2h"], "say why"),
        (["--match", "pool=chat", "--for", "soon", *WHY], "--for: 'soon' is not a duration"),
        (["--match", "pool", "--for", "2h", *WHY], "--match: wants label=value"),
        (["--match", "pool=a", "--match", "pool=b", "--for", "2h", *WHY], "pool is given twice"),
    ):
        assert told in plane.run("silences", "create", *arguments, status=2).stderr


def test_a_destination_is_made_tested_and_deleted(plane: Plane, receiver: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("long enough\n")
    made = plane.json("destinations", "create", "pager", "--url", receiver, "--secret-file", secret)
    assert made["signed"] and made == plane.json("destinations", "show", made["id"])
    assert plane.json("destinations", "list") == plane.get("destinations")
    changed = plane.json("destinations", "change", made["id"], "--match", "severity=page")
    assert changed == {**made, "only": {"matchers": {"severity": "page"}, "patterns": {}}}
    assert "nothing to change" in plane.run("destinations", "change", made["id"], status=2).stderr
    assert "the test arrived" in plane.run("destinations", "test", made["id"]).stdout
    assert plane.json("destinations", "test", made["id"])["state"] == "delivered"
    url = tmp_path / "url"
    url.write_text(f"http://127.0.0.1:{free_port()}/hook\n")
    deaf = plane.json("destinations", "create", "deaf", "--url-file", url)["id"]
    assert f"destination {deaf}: no: " in plane.run("destinations", "test", deaf, status=1).stdout
    assert "is deleted" in plane.run("destinations", "delete", deaf).stdout
    assert "404" in plane.run("destinations", "show", deaf, status=1).stderr
    assert "say where" in plane.run("destinations", "create", "x", status=2).stderr
    assert "url" in plane.run("destinations", "create", "x", "--url", "nonsense", status=2).stderr
