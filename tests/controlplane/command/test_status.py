"""`tailwright status`: one screen, a line a node; the API's bodies; and again and again, also while nobody answers."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.command.status import Seen, lines_of
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.reports.node_clock import NodeClock
from tests.peers import send, service

NODE = NodeView(
    node="gpu 1",
    pool="chat",
    role="serving",
    backend="embedded",
    connected=True,
    healthy=True,
    drift=True,
    effective=EffectiveConfig(revision=3, knobs={"max_num_seqs": 8}),
)


def test_a_node_is_one_line_with_what_is_wrong_there() -> None:
    far = NodeClock(-12.5, 0.02)
    seen = Seen([NODE], {}, [], [], [], {NODE.node: far})
    lines = lines_of(seen, None)
    for told in ("gpu 1", f"healthy, differs, clock {far.words}", "3", "max_num_seqs=8"):
        assert told in lines[1]
    assert lines[-1] == "Nothing is under way; no alert is open."
    assert all(len(line) <= 60 for line in lines_of(seen, 60)[:2])


def test_the_service_is_shown_in_words_and_as_its_bodies(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        env = {"TAILWRIGHT_SERVER_URL": running.url, "TAILWRIGHT_TOKEN": running.token}
        assert "No node yet." in CliRunner().invoke(app, ["status"], env=env).output
        running.http.post("/api/v1/enrol", json={"node": "a", "pool": "chat", "backend": "embedded"})
        send(running, "chat")
        said = CliRunner().invoke(app, ["status"], env=env).output
        assert re.search(r"chat +ttft +2\d\d ms +2\d\d ms +2\d\d ms +6", said), said
        told = json.loads(CliRunner().invoke(app, ["status", "--json"], env=env).stdout)
        assert told["nodes"] == running.http.get("/api/v1/nodes").json()["items"]
        assert [one["metric"] for one in told["latency"]["chat"]] == ["ttft", "itl", "e2e"]
        assert told["alerts"] == told["studies"] == told["rollouts"] == []


def test_a_pool_whose_senders_have_no_node_is_shown(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        env = {"TAILWRIGHT_SERVER_URL": running.url, "TAILWRIGHT_TOKEN": running.token}
        send(running, "chat")
        said = CliRunner().invoke(app, ["status"], env=env).output
        assert "No node yet." in said and re.search(r"chat +ttft +2\d\d ms", said), said


@pytest.mark.slow
def test_watching_goes_on_while_the_service_is_away_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "controlplane.command.main", "status", "--watch", "--interval", "0.5", "--json"]
    with service(tmp_path / "data") as running:
        process = subprocess.Popen(
            [*command, "--server", running.url, "--token", running.token],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stderr is not None
        for _ in range(2):
            assert json.loads(process.stdout.readline())["nodes"] == []
        url = running.url
    while "does not answer" not in (line := process.stderr.readline()):
        assert line, "it has ended"
    assert url in line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
