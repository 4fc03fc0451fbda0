"""Fleets that stand in the database alone, with a past: 1,000 nodes of seven days, and 10,000 nodes."""

import struct
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser

from agents.demo.engines import TAILWRIGHT
from benchmarks.dashboard_measures import interactions
from benchmarks.dashboard_measures.browsing import Goal, Served, middle, painted_ms, served, signed_in
from benchmarks.telemetry_measures.fleet.report_bodies import Report, node_name, pool_name, templates
from controlplane.contract.clock import utc_now
from controlplane.contract.metrics import WINDOW_S
from controlplane.db.database import Database
from controlplane.fleet import store as fleet

NODES, MANY = 1_000, 10_000
DAYS, APART_S, LATEST = 7, 6 * 3600, 15
"""A point of each node every six hours of seven days, and each minute of the last fifteen."""
TIMES = 7
LOAD_LIMIT_S = 240.0
VARIANTS = 24
REGIONS, GPUS = ("eu-1", "eu-2", "us-1", "ap-1"), ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200")


def with_nodes(service: Served, count: int) -> None:
    """Rows of nodes, in ten pools, that have never connected; with a region, a GPU and a rack as labels."""
    database = Database(service.database_url)
    try:
        with database.session() as session:
            for number in range(count):
                place = {"pool": pool_name(number), "role": "serving", "backend": "embedded"}
                row = fleet.place(session, node_name(number), **place, now=utc_now())
                row.labels = {"region": REGIONS[number % 4], "gpu": GPUS[number % 3], "rack": f"r{number // 50}"}
                session.add(row)
    finally:
        database.close()


def with_a_past(service: Served, folder: Path, count: int) -> float:
    """Telemetry of the nodes' last days, loaded as a user would. Answers seconds."""
    made = templates(1, VARIANTS, packed=True)
    last = int(time.time() // WINDOW_S) - 12
    minute = round(60 / WINDOW_S)
    ends = [last - round(APART_S / WINDOW_S) * back for back in range(DAYS * 86_400 // APART_S, 0, -1)]
    ends += [last - minute * back for back in range(LATEST, -1, -1)]
    file = folder / "past.packed"
    with file.open("wb") as out:
        for ordinal, window in enumerate(ends, 1):
            for node in range(count):
                body = made[(ordinal * 7 + node) % len(made)].body(Report(node, node, b"-" * 16, ordinal, window))
                out.write(struct.pack(">I", len(body)) + body)
    command = [sys.executable, *TAILWRIGHT, "load", str(file), "--server", service.url]
    began = time.monotonic()
    command += ["--token-file", str(service.data_dir / "admin-token")]
    subprocess.run(command, check=True, timeout=LOAD_LIMIT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file.unlink()
    return time.monotonic() - began


def measure(browser: Browser, folder: Path) -> list[Goal]:
    """First paint and each kind of interaction over 1,000 nodes with seven days."""
    with served(folder) as service:
        with_nodes(service, NODES)
        with_a_past(service, folder, NODES)
        context = signed_in(browser, service)
        page = context.new_page()
        found = []
        for path in ("/?from=now-7d", "/explore?pool=pool-0&from=now-7d", "/requests?from=now-7d"):
            painted = [painted_ms(page, path) for _ in range(TIMES)]
            found.append(Goal(f"first contentful paint, {NODES:,} nodes, 7 days: {path}", "300 ms", middle(painted)))
        page.close()
        documents = signed_in(browser, service)
        found += interactions.measure(context, documents)
        documents.close()
        context.close()
        return found


def measure_many(browser: Browser, folder: Path) -> list[Goal]:
    """The fleet's page of 10,000 nodes, and the palette over them."""
    with served(folder) as service:
        with_nodes(service, MANY)
        context = signed_in(browser, service)
        page = context.new_page()
        painted = [painted_ms(page, "/fleet") for _ in range(TIMES)]
        chosen = [painted_ms(page, "/fleet?by=label:region&selector=gpu%3DNVIDIA-H200") for _ in range(TIMES)]
        page.goto("/gallery")
        asked = []
        for number in range(TIMES):
            began = time.monotonic()
            page.evaluate("(q) => fetch('/palette?q=' + q).then((answer) => answer.text())", f"sim-0{number}99")
            asked.append(1000 * (time.monotonic() - began))
        context.close()
    return [
        Goal(f"fleet's page of {MANY:,} nodes, first contentful paint", "400 ms", middle(painted)),
        Goal("the same chosen by a selector, cells by a label", "400 ms", middle(chosen)),
        Goal(f"palette over {MANY:,} nodes, a key's answer", "100 ms", middle(asked)),
    ]
