"""Fifty viewers of one live page: what they cost the service."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import psutil
from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Goal, Served, served
from benchmarks.dashboard_measures.fleets import NODES, with_nodes

VIEWERS = 50
SETTLED_S, COUNTED_S = 10.0, 30.0


def watch(service: Served, over: Event) -> int:
    """Reads a page's stream until it is over. Answers how many bytes came."""
    with httpx.Client(base_url=service.url, timeout=30) as browser:
        browser.post("/login", data={"token": service.token})
        came = 0
        with browser.stream("GET", "/live/now?fresh=") as stream:
            stream.raise_for_status()
            for chunk in stream.iter_bytes():
                came += len(chunk)
                if over.is_set():
                    break
        return came


def measure(browser: Browser, folder: Path) -> list[Goal]:
    over = Event()
    with served(folder) as service, ThreadPoolExecutor(VIEWERS) as threads:
        with_nodes(service, NODES)
        # A service that has done its first rounds.
        time.sleep(SETTLED_S)
        alone = cpu_share(service)
        watching = [threads.submit(watch, service, over) for _ in range(VIEWERS)]
        try:
            time.sleep(SETTLED_S)
            with_them = cpu_share(service)
        finally:
            over.set()
        came = sum(one.result() for one in watching)
    told = f"{100 * (with_them - alone):.1f} % ({100 * with_them:.1f} %, without them {100 * alone:.1f} %)"
    return [Goal(f"{VIEWERS} viewers live, {NODES:,} nodes", "10 % of a core", f"{told}, {came / 1000:.0f} kB in all")]


def cpu_share(service: Served) -> float:
    """Of one core, over `COUNTED_S` seconds, of the service and what it has started."""
    root = psutil.Process(service.child.process.pid)
    before, began = _cpu_s(root), time.monotonic()
    time.sleep(COUNTED_S)
    return (_cpu_s(root) - before) / (time.monotonic() - began)


def _cpu_s(root: psutil.Process) -> float:
    found = [root, *root.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in found)
