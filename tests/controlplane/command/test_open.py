"""`tailwright open` against a real service: a link that signs in, opened on a desktop and printed elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.command.open_dashboard import has_desktop, is_page
from tests.peers import Service, service

ROOT = Path(__file__).resolve().parents[3]
DESKTOP = {"DISPLAY": ":0", "SSH_CONNECTION": "", "SSH_TTY": ""}
runner = CliRunner()


def signs_in(running: Service, link: str) -> bool:
    code = parse_qs(urlsplit(link).query)["code"][0]
    return running.http.post("/api/v1/sessions", json={"code": code}).is_success


@pytest.mark.slow
def test_the_link_is_printed_alone_and_counts_once(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        to = ["--server", running.url + "/", "--token-file", str(tmp_path / "data/dashboard-token")]
        printed = runner.invoke(app, ["open", "/alerts?state=open", "--print", *to], env=DESKTOP)
        assert printed.exit_code == 0, printed.output
        link = printed.stdout.strip()
        assert link.startswith(f"{running.url}/login?code=tailwright_code_")
        assert parse_qs(urlsplit(link).query)["next"] == ["/alerts?state=open"]
        assert "once, within 60 s" in printed.stderr or "once, within 59 s" in printed.stderr
        assert signs_in(running, link) and not signs_in(running, link)
        for_programs = json.loads(runner.invoke(app, ["open", "--json", *to], env=DESKTOP).stdout)
        assert set(for_programs) == {"link", "expires_at"} and signs_in(running, for_programs["link"])
        over_ssh = runner.invoke(app, ["open", *to], env={**DESKTOP, "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"})
        assert over_ssh.exit_code == 0 and signs_in(running, over_ssh.stdout.strip())


@pytest.mark.slow
def test_a_desktops_browser_gets_the_link_and_the_terminal_does_not(tmp_path: Path) -> None:
    got, browser = tmp_path / "got", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {got}\n')
    browser.chmod(0o755)
    with service(tmp_path / "data") as running:
        command = [sys.executable, "-m", "controlplane.command.main", "open", "/fleet", "--server", running.url]
        environment = {**os.environ, **DESKTOP, "TAILWRIGHT_TOKEN": running.token, "BROWSER": f"{browser} %s"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"opened {running.url}/fleet in the browser\n"
        assert signs_in(running, got.read_text().strip())


@pytest.mark.parametrize("page", ["alerts", "//evil.example/", "/\\evil.example", "https://evil.example", "/a\nb", ""])
def test_what_is_no_page_is_refused(page: str) -> None:
    answer = runner.invoke(app, ["open", "--token", "x", "--", page])
    assert answer.exit_code == 2 and "page: wants a path" in answer.stderr


@given(st.text())
def test_no_page_leads_elsewhere(page: str) -> None:
    if is_page(page):
        assert urlsplit(f"http://service:1{page}").netloc == "service:1"


@pytest.mark.parametrize(
    ("environment", "platform", "desktop"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "a 1 b 22"}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_TTY": "/dev/ttys001"}, "darwin", False),
    ],
)
def test_a_desktop_is_told_by_the_environment(environment: dict[str, str], platform: str, desktop: bool) -> None:
    assert has_desktop(environment, platform) is desktop


def test_a_service_that_is_not_there_is_one_line() -> None:
    answer = runner.invoke(app, ["open", "--print", "--server", "http://127.0.0.1:9", "--token", "x"])
    assert answer.exit_code == 1 and len(answer.stderr.splitlines()) == 1
