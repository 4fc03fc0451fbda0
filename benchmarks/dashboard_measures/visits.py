"""What a first visit transfers, and how many requests an open page makes; a service that hangs is told."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Goal, Served, served, signed_in

PAGES = ("/", "/explore", "/fleet")
OPEN_S = 20.0


def visit(browser: Browser, service: Served, path: str, open_s: float) -> tuple[int, int, int]:
    """Bytes and answers until the page is loaded, and requests begun in `open_s` seconds after that."""
    context = signed_in(browser, service)
    try:
        page = context.new_page()
        wire = context.new_cdp_session(page)
        wire.send("Network.enable")
        sizes: dict[str, float] = {}
        asked: list[str] = []

        def received(event: dict[str, Any]) -> None:
            sizes[event["requestId"]] = sizes.get(event["requestId"], 0) + event["encodedDataLength"]

        # A stream has no end: what of it has come is counted as it comes.
        wire.on("Network.dataReceived", received)
        wire.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))
        wire.on("Network.requestWillBeSent", lambda event: asked.append(event["request"]["url"]))
        page.goto(path, wait_until="load")
        page.wait_for_timeout(1500)
        loaded, answers = round(sum(sizes.values())), len(asked)
        page.wait_for_timeout(1000 * open_s)
        return loaded, answers, len(asked) - answers
    finally:
        context.close()


def measure(browser: Browser, folder: Path) -> list[Goal]:
    with served(folder) as service:
        seen = {path: visit(browser, service, path, OPEN_S) for path in PAGES}
        heaviest = max(seen, key=lambda path: seen[path][0])
        busiest = max(seen, key=lambda path: seen[path][2])
        return [
            Goal("transferred on a first visit", "120 kB", f"{seen[heaviest][0] / 1000:.1f} kB at most ({heaviest})"),
            Goal(f"requests in {OPEN_S:g} s of an open page", "2", f"{seen[busiest][2]} at most ({busiest})"),
            frozen(browser, service),
        ]


def frozen(browser: Browser, service: Served) -> Goal:
    """Seconds from the moment that the service stops until the page says so in words."""
    context = signed_in(browser, service)
    page = context.new_page()
    page.goto("/")
    page.locator("#freshness", has_text="live").wait_for()
    page.wait_for_timeout(3000)
    os.kill(service.child.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        page.locator("#freshness", has_text="stale").wait_for(timeout=60_000)
        took_s = time.monotonic() - began
        said = page.locator("#freshness").inner_text()
    finally:
        os.kill(service.child.process.pid, signal.SIGCONT)
    context.close()
    return Goal("service frozen", "stale within 10 s, in words", f"{took_s:.1f} s: “{said}”")
