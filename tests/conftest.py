"""A real stack for the tests that need one: control plane, one engine, one agent, each its own process.

And how a run of all tests is shared out: how many workers, what comes first, what the quick run leaves out.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from httpx._transports import default as httpx_transports
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from agents.demo.demo_fleet import Fleet
from agents.demo.plan import MODEL, POOL, Plan
from controlplane.app import garbage
from controlplane.client import Client
from controlplane.db import database
from tests import shared_authorities, shared_out, shared_programs, shared_statements
from tests.made_tables import upgrade_of_application
from tests.postgresql import postgres_schema_url, postgres_server, postgres_url  # noqa: F401 - fixtures of all tests
from tests.processes import answers, free_ports, wait_for
from tests.soak import shorten

WORKER_BYTES = 4 * 2**30
"""Memory of a worker with the stack, the database and the browser that it may have started."""
STARTING = frozenset({"stack", "bare", "browser", "postgres_url", "embedded_clickhouse", "postgresql", "clickhouse"})
"""Fixtures and parameters that start a program, once for a worker: who asks for one is `slow`."""
# The same examples at each run, however slow the machine: more of the same find nothing that these did not at the first
# run. `HYPOTHESIS_PROFILE=search` looks for more.
settings.register_profile(
    "same", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", parent=settings.get_profile("same"), derandomize=False, max_examples=1000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(PROFILE)
if PROFILE == "same":
    # Hypothesis also tries the constants of whatever is imported by then: others in each worker, and in each order of
    # files, so that a property failed by chance.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: two workers a core, as far as memory is there for them.

    What starts services, browsers and databases waits for them: somebody else uses that time.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)) * 2, memory // WORKER_BYTES))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> shared_out.ByWhatIsThere | None:
    return shared_out.ByWhatIsThere(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes (ten thousand tests, and all that they import) stays until the end: the garbage collector
    leaves it alone, and looks at what is new as seldom as in the service (see `garbage`), all of it more often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(garbage.YOUNG, garbage.MIDDLE, 10)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is `slow` by its fixtures, and puts files with slow tests first: no worker begins a long one last.

    Before them all come those of minutes, then those with the stack, whose programs work as long as they run, so that
    they can be ended soon, and those with a browser, which uses one after the other.
    """
    if PROFILE == "same":
        shorten(items)
    wanted: dict[str, set[Path]] = {name: set() for name in shared_programs.SHARED}
    for item in items:
        if isinstance(item, pytest.Function):
            params = item.callspec.params.values() if hasattr(item, "callspec") else ()
            asked = {*item.fixturenames, *(value for value in params if isinstance(value, str))}
            if STARTING & asked:
                item.add_marker("slow")
            for name in asked & wanted.keys():
                wanted[name].add(item.path)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    minutes = {item.path for item in items if item.get_closest_marker("long")}
    stack, browser = wanted["stack"], wanted["browser"]

    def place(path: Path) -> tuple[bool, ...]:
        return path not in minutes, path not in stack, (path in browser) is (path in stack), path not in slow

    items.sort(key=lambda item: place(item.path))
    if items:
        shared_programs.note_files(items[0].session, wanted)
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        shared_out.note(items, {*shared_programs.SHARED, *shared_out.ASKED_BY.values()})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Ends the stack and the browser where the next file has no use for them."""
    try:
        return (yield)
    finally:
        shared_programs.end_unused(item.session, nextitem)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Also after a run that was broken off."""
    shared_programs.end(session)


def pytest_collection_finish() -> None:
    """Applications that tests make in this process get their tables as the databases of tests do; no database compiles
    what another has, and no client reads whom another trusts."""
    changed = pytest.MonkeyPatch()
    changed.setattr(database, "create_engine", shared_statements.share(database.create_engine))
    changed.setattr(httpx_transports, "create_ssl_context", shared_authorities.share(httpx.create_ssl_context))
    service = sys.modules.get("controlplane.app.service")
    if service is not None:
        changed.setattr(service, "upgrade", upgrade_of_application)


def pytest_configure() -> None:
    """Whoever starts the tests in the background of a script has them ignore Ctrl-C, and so would what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Stack:
    """One node of the bundled model under a real control plane. `complete` sends it a request."""

    def __init__(self, folder: Path) -> None:
        port, engine_port, trial_port = free_ports(3)
        self.plan = Plan(data_dir=folder, port=port, engine_ports=(engine_port,), trial_port=trial_port)
        self.fleet = Fleet(self.plan)
        self.fleet.clear()
        self.engine_url = f"http://127.0.0.1:{self.plan.engine_ports[0]}"
        self.url = self.fleet.url

    def start(self) -> None:
        self.fleet.start_service()
        wait_for("the service is ready", lambda: answers(f"{self.url}/readyz"))
        self.fleet.start_node("node-1", self.plan.engine_ports[0], POOL, "serving")
        with self.client() as client:
            wait_for("the node is healthy", lambda: any(n.healthy and n.effective for n in client.nodes()))

    def client(self, token: str = "admin-token") -> Client:
        return self.fleet.client(token)

    def complete(self, prompt: str, max_tokens: int = 16, **more: object) -> httpx.Response:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more}
        return httpx.post(f"{self.engine_url}/v1/completions", json=body, timeout=60)

    def stop(self) -> None:
        self.fleet.stop()


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """One running stack for all files that follow each other and want one."""

    @contextmanager
    def started() -> Iterator[Stack]:
        made = Stack(tmp_path_factory.mktemp("stack") / "data")
        try:
            made.start()
            yield made
        finally:
            made.stop()

    return shared_programs.running(request.session, "stack", started)


@pytest.fixture(name="wait_for", scope="session")
def wait_for_fixture() -> Callable[..., object]:
    """`wait_for(what, look, limit_s)`: poll until `look` is true, else fail with what was last seen."""
    return wait_for
