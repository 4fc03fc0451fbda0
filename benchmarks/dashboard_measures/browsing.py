"""A service as a user starts it and a real Chromium signed in to it."""

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page

from agents.demo.engines import TAILWRIGHT
from agents.demo.processes import Child, Processes
from controlplane.client import Client
from tests.processes import free_port, wait_for

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
DESKTOP = {"width": 1280, "height": 900}
PAINTED = """() => new Promise((done) => {
  const look = () => {
    const [painted] = performance.getEntriesByName("first-contentful-paint");
    if (painted) done(painted.startTime); else requestAnimationFrame(look);
  };
  look();
})"""


@dataclass(frozen=True)
class Goal:
    """One line of the table: what was measured, what it should be, what it was."""

    name: str
    goal: str
    found: str


@dataclass
class Served:
    """A service of its own folder."""

    url: str
    data_dir: Path
    child: Child

    @property
    def token(self) -> str:
        return (self.data_dir / "admin-token").read_text().strip()

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.data_dir / 'tailwright.db'}"

    def client(self) -> Client:
        return Client(self.url, self.token, timeout_s=60)


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A service without nodes, until the end of the block."""
    processes, port = Processes(folder / "logs"), free_port()
    options = ["--data-dir", str(folder / "data"), "--port", str(port), "--no-tuner"]
    child = processes.start("service", [*TAILWRIGHT, "up", *options])
    made = Served(f"http://127.0.0.1:{port}", folder / "data", child)
    try:
        wait_for("the service is ready", lambda: httpx.get(f"{made.url}/readyz").status_code == 200)
        yield made
    finally:
        processes.stop()


def launched(playwright: Any, *more: str) -> Browser:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        raise SystemExit("Chromium is missing: Debian's package chromium")
    browser: Browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS, *more])
    return browser


def signed_in(browser: Browser, service: Served) -> BrowserContext:
    """With an empty cache."""
    context = browser.new_context(base_url=service.url, viewport=DESKTOP)  # type: ignore[arg-type]
    context.request.post("/login", form={"token": service.token}, max_redirects=0)
    return context


def painted_ms(page: Page, path: str) -> float:
    """Until the first contentful paint of the page."""
    page.goto(path, wait_until="load")
    return float(page.evaluate(PAINTED))


def middle(values: list[float]) -> str:
    """Median and range of milliseconds."""
    return f"{statistics.median(values):.0f} ms ({min(values):.0f} to {max(values):.0f}, {len(values)} times)"
