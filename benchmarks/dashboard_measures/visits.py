"""What a first visit transfers, and how many requests an open page makes; a service that hangs is told."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Goal, Served, served, signed_in

PAGES = ("/", "/explore", "/fleet")
OPEN_S = 20.0
LOADED_MS = 1500
"""From the last page's load event on, for what scripts and the stream bring."""


@dataclass(frozen=True)
class Visit:
    """What a first visit of a page transfers."""

    loaded_bytes: int
    answers: int
    asked_while_open: int
    """Requests that the page began after it was loaded."""


class Visitor:
    """A browser without a cache that has opened a page, and counts what goes over its wire."""

    def __init__(self, browser: Browser, service: Served, path: str) -> None:
        self.context = signed_in(browser, service)
        self.page = self.context.new_page()
        self._sizes: dict[str, float] = {}
        self.asked = 0
        wire = self.context.new_cdp_session(self.page)
        wire.send("Network.enable")
        # A stream has no end: what of it has come is counted as it comes.
        wire.on("Network.dataReceived", self._received)
        wire.on("Network.loadingFinished", self._finished)
        wire.on("Network.requestWillBeSent", self._begun)
        self.page.goto(path, wait_until="load")

    @property
    def bytes(self) -> int:
        return round(sum(self._sizes.values()))

    def _received(self, event: dict[str, Any]) -> None:
        self._sizes[event["requestId"]] = self._sizes.get(event["requestId"], 0) + event["encodedDataLength"]

    def _finished(self, event: dict[str, Any]) -> None:
        self._sizes[event["requestId"]] = event["encodedDataLength"]

    def _begun(self, _: dict[str, Any]) -> None:
        self.asked += 1


def visits(browser: Browser, service: Served, paths: Sequence[str], open_s: float) -> dict[str, Visit]:
    """Each page opened by a visitor of its own, one after the other; all have `LOADED_MS` together to load what they
    want, and stay open for `open_s` seconds more."""
    opened: dict[str, Visitor] = {}
    try:
        for path in paths:
            opened[path] = Visitor(browser, service, path)
        any_page = next(iter(opened.values())).page
        any_page.wait_for_timeout(LOADED_MS)
        loaded = {path: (one.bytes, one.asked) for path, one in opened.items()}
        any_page.wait_for_timeout(1000 * open_s)
        return {path: Visit(*loaded[path], one.asked - loaded[path][1]) for path, one in opened.items()}
    finally:
        for one in opened.values():
            one.context.close()


def measure(browser: Browser, folder: Path) -> list[Goal]:
    with served(folder) as service:
        seen = visits(browser, service, PAGES, OPEN_S)
        heaviest = max(seen, key=lambda path: seen[path].loaded_bytes)
        busiest = max(seen, key=lambda path: seen[path].asked_while_open)
        return [
            Goal(
                "transferred on a first visit",
                "120 kB",
                f"{seen[heaviest].loaded_bytes / 1000:.1f} kB at most ({heaviest})",
            ),
            Goal(
                f"requests in {OPEN_S:g} s of an open page",
                "2",
                f"{seen[busiest].asked_while_open} at most ({busiest})",
            ),
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
