"""What the dashboard's tests share: a real Chromium, and for each module one signed-in browser context."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from agents.demo.engines import TAILWRIGHT
from agents.demo.processes import Processes
from controlplane.client import Client
from tests import forked_commands, shared_programs
from tests.forked_commands import ForkedProcesses, Nursery
from tests.processes import answers, free_port, wait_for

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

# A busy machine is slow, not wrong: what never comes fails all the same.
expect.set_options(timeout=30_000)


def chromium() -> str:
    """Chromium's headless shell where there is one, as Playwright takes it without a window: the same engine, without a
    browser's windows, menus and preloading, which took more than half of a page's CPU. Else the whole browser."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    executable = next((found for name in names if (found := shutil.which(name))), None)
    assert executable, "Chromium is missing: deploy/test_packages.sh installs it"
    return executable


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """One for all files that follow each other and want one, whose contexts end with each; another after one that died.

    It ends before a file that wants none: Playwright's event loop is this thread's, and asynchronous tests want one.
    """
    made = shared_programs.running(request.session, "browser", launched)
    if not made.is_connected():
        shared_programs.end(request.session, ["browser"])
        made = shared_programs.running(request.session, "browser", launched)
    yield made
    for context in made.contexts:
        context.close()


class Bare:
    """A real service without nodes, a module's own, which a test may stop or end for a while. `program`: the
    interpreter's arguments for `tailwright`."""

    def __init__(self, folder: Path, processes: Processes, program: Sequence[str] = TAILWRIGHT) -> None:
        self._processes, self._program, self._port = processes, program, free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.data_dir = folder / "data"

    def start(self) -> None:
        options = ["--data-dir", str(self.data_dir), "--port", str(self._port), "--no-tuner"]
        self.child = self._processes.start("service", [*self._program, "up", *options])
        wait_for("the service is ready", lambda: answers(f"{self.url}/readyz"))

    def end(self) -> None:
        self._processes.stop()

    def token(self, name: str = "admin-token") -> str:
        return (self.data_dir / name).read_text().strip()

    def client(self) -> Client:
        return Client(self.url, self.token(), timeout_s=15)


def started(bare: Bare) -> Iterator[Bare]:
    try:
        bare.start()
        yield bare
    finally:
        bare.end()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with forked_commands.nursery() as made:
        yield made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Bare]:
    folder = tmp_path_factory.mktemp("bare")
    yield from started(Bare(folder, ForkedProcesses(folder / "logs", nursery)))


def signed_in(browser: Any, url: str, token: str, **screen: Any) -> BrowserContext:
    """A browser context that holds the session's cookie. `screen`: as Playwright's `new_context` takes it."""
    context: BrowserContext = browser.new_context(base_url=url, **screen)
    answer = context.request.post("/login", form={"token": token}, max_redirects=0)
    assert answer.status == 303
    return context


@pytest.fixture(scope="module")
def stack_context(browser: Any, stack: Any) -> Iterator[BrowserContext]:
    context = signed_in(browser, stack.url, stack.fleet.token("dashboard-token"))
    yield context
    context.close()


@pytest.fixture(scope="module")
def bare_context(browser: Any, bare: Bare) -> Iterator[BrowserContext]:
    context = signed_in(browser, bare.url, bare.token())
    yield context
    context.close()


def checked(context: BrowserContext) -> Iterator[Page]:
    """A page that fails the test on any script error."""
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []


@pytest.fixture
def page(stack_context: BrowserContext) -> Iterator[Page]:
    """A signed-in page over the stack with a node."""
    yield from checked(stack_context)


@pytest.fixture
def bare_page(bare_context: BrowserContext) -> Iterator[Page]:
    """A signed-in page over the service without nodes."""
    yield from checked(bare_context)
