"""The story of `make run` as on-call sees it: its pages in a real Chromium, on a desktop and on a phone, as it happens.

With TAILWRIGHT_PICTURES=FOLDER each page is also kept as a picture. No page may log an error to the console, ask
anything of another machine, be wider than its screen, leave a part out, or be called stale while the service answers.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from agents.demo.engines import TAILWRIGHT
from agents.demo.plan import POOL
from controlplane.client import Client
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.errors import TailwrightError
from tests.processes import free_ports
from tests.web.conftest import FLAGS, chromium, signed_in

pytestmark = pytest.mark.story

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 960.0
PATIENCE = 2
"""Of the demo: whether its story ends in time is test_story.py's, and browsers beside it slow it down."""
POLL_S = 1.0
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}

Seen = dict[str, str]
"""Pages to look at, each with what stands on it."""


@dataclass
class Scene:
    """A moment of the story: `look` answers its pages once it has come."""

    name: str
    look: Callable[[Client], Seen | None]


def traffic(client: Client) -> Seen | None:
    answer = client.quantiles("ttft", window="1m", pool=POOL)
    if not answer.series or answer.series[0].count < 30:
        return None
    pages = {"/": POOL, f"/explore?pool={POOL}": "Time to first token", "/requests": "newest first"}
    return pages | {"/fleet": "node-1", "/nodes/node-1": "node-1", "/configs": "adopted from"}


def alert(client: Client) -> Seen | None:
    for one in client.alerts():
        if one.state == "firing" and one.diagnosis is not None and one.labels.get("pool") == POOL:
            summary = one.diagnosis.summary
            return {"/": "Next:", f"/alerts/{one.id}": summary, f"/explore?pool={POOL}&from=now-5m": "fired"}
    return None


def taking_back(client: Client) -> Seen | None:
    """While it is judged, or, where the pages before took longer than that, once it is done."""
    phases = (RolloutPhase.CANARY, RolloutPhase.JUDGING, RolloutPhase.PROMOTED)
    found = next((one for one in client.rollouts() if one.spec.takes_back is not None and one.phase in phases), None)
    return None if found is None else {f"/rollouts/{found.id}": "It takes back revision", "/": "Under way"}


def searching(client: Client) -> Seen | None:
    found = next((study for study in client.studies() if study.trials_done > 1), None)
    return None if found is None else {f"/studies/{found.id}": f"Study {found.id}"}


def improved(client: Client) -> Seen | None:
    proven = {study.rollout_id for study in client.studies()}
    found = next((one for one in client.rollouts() if one.id in proven and one.phase is RolloutPhase.PROMOTED), None)
    if found is None:
        return None
    pages = {f"/rollouts/{found.id}": "promoted", "/": POOL, "/ledger": "promoted", "/configs": POOL}
    return pages | {"/requests?order=slowest": "slowest by", "/settings": "Tokens"}


SCENES = (
    Scene("1-traffic", traffic),
    Scene("2-alert", alert),
    Scene("3-taking-back", taking_back),
    Scene("4-searching", searching),
    Scene("5-improved", improved),
)


@dataclass
class Viewer:
    """One screen, and what went wrong on it."""

    name: str
    context: BrowserContext
    url: str
    faults: list[str] = field(default_factory=list)

    def opened(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"{self.name} {page.url}: {error}"))
        page.on("console", self._said)
        page.on("request", self._asked)
        return page

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"{self.name}: {message.text} at {message.location}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.faults.append(f"{self.name} asks {request.url}")

    def look_at(self, page: Page, path: str, words: str, picture: Path | None) -> None:
        """What is wrong with a page is kept, so that one run of the story tells all of it."""
        answer = page.goto(path)
        if answer is None or answer.status != 200:
            self.faults.append(f"{self.name} {path}: {answer and answer.status}")
        try:
            expect(page.locator("main")).to_contain_text(words, timeout=30_000)
            expect(page.get_by_role("status").first).to_have_text("live", timeout=30_000)
            expect(page.locator("[data-part]:not([data-as-of])")).to_have_count(0, timeout=30_000)  # Each has come.
        except AssertionError as error:
            self.faults.append(f"{self.name} {path}: {str(error)[:2000]}")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > SCREENS[self.name]["viewport"]["width"]:
            self.faults.append(f"{self.name} {path}: {width} pixels wide")
        if picture is not None:
            page.screenshot(path=picture, full_page=True)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """The demo under way, its address and its data folder; ended with the test."""
    port, *engines = free_ports(4)
    command = [sys.executable, *TAILWRIGHT, "demo", "--once", "--data-dir", tmp_path / "demo"]
    command += ["--patience", str(PATIENCE), "--port", str(port), "--engine-ports", ",".join(map(str, engines))]
    with (tmp_path / "told").open("w") as told:
        process = subprocess.Popen(
            [str(word) for word in command], cwd=ROOT, text=True, stdout=told, stderr=subprocess.STDOUT
        )
        try:
            yield process, f"http://127.0.0.1:{port}", tmp_path
        finally:
            process.terminate()
            process.wait(60)


def faults_of(viewers: list[Viewer]) -> list[str]:
    return [fault for viewer in viewers for fault in viewer.faults]


def wait_for_scene(demo: subprocess.Popen[str], client: Client, scene: Scene, deadline_s: float) -> Seen:
    while time.monotonic() < deadline_s:
        try:
            if (seen := scene.look(client)) is not None:
                return seen
        except (httpx.TransportError, TailwrightError):
            pass  # The service starts; whether it ever does is what the deadline is for.
        assert demo.poll() is None, f"the demo ended before {scene.name}"
        time.sleep(POLL_S)
    raise AssertionError(f"{scene.name} did not come")


@pytest.mark.timeout(LIMIT_S + 120)
def test_the_story_is_seen_on_its_pages(demo: tuple[subprocess.Popen[str], str, Path]) -> None:
    process, url, folder = demo
    pictures = Path(os.environ["TAILWRIGHT_PICTURES"]) if "TAILWRIGHT_PICTURES" in os.environ else None
    deadline_s = time.monotonic() + LIMIT_S
    token_file = folder / "demo" / "service" / "admin-token"
    while not token_file.exists():
        assert process.poll() is None and time.monotonic() < deadline_s, (folder / "told").read_text()
        time.sleep(POLL_S)
    token = token_file.read_text().strip()
    with sync_playwright() as playwright, Client(url, token) as client:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        viewers: list[Viewer] = []
        for scene in SCENES:
            try:
                seen = wait_for_scene(process, client, scene, deadline_s)
            except AssertionError as error:
                told = [*faults_of(viewers), (folder / "told").read_text()[-4000:]]
                raise AssertionError("\n".join([str(error), *told])) from error
            if not viewers:
                viewers = [
                    Viewer(name, signed_in(browser, url, token, **screen), url) for name, screen in SCREENS.items()
                ]
            for viewer in viewers:
                page = viewer.opened()
                for place, (path, words) in enumerate(seen.items()):
                    picture = None if pictures is None else pictures / f"{scene.name}-{place}-{viewer.name}.png"
                    viewer.look_at(page, path, words, picture)
                page.close()
        browser.close()
    assert faults_of(viewers) == []
    assert process.wait(max(1.0, deadline_s - time.monotonic())) == 0, (folder / "told").read_text()[-4000:]
