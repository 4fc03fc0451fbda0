"""What the dashboard must reach, in a real Chromium: bytes, requests, first paint, redrawing, many nodes, many viewers.

    python -m benchmarks.dashboard [--only visits,fleet,many,redraw,viewers,lighthouse]

Prints a Markdown table for docs/benchmarks.md on standard output and progress on standard error, within eight minutes.
A section that fails is named and does not end the others; the exit status is 1 then. Bytes are what came over the
wire (Chrome DevTools Protocol), in kB of 1,000; times are of this machine, so it should have nothing else to do.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as BrowserError

from benchmarks.dashboard_measures import fleets, lighthouse, redraw, viewers, visits
from benchmarks.dashboard_measures.browsing import Goal, launched
from controlplane.contract.errors import TailwrightError

SECTIONS: dict[str, Callable[[Browser, Path], list[Goal]]] = {
    "visits": visits.measure,
    "redraw": redraw.measure,
    "many": fleets.measure_many,
    "fleet": fleets.measure,
    "viewers": viewers.measure,
    "lighthouse": lighthouse.measure,
}

FAILURES = (BrowserError, TailwrightError, httpx.HTTPError, OSError, AssertionError, subprocess.SubprocessError)
"""What ends a section alone."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between")
    wanted = parser.parse_args().only.split(",")
    if unknown := [name for name in wanted if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    failed = False
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = launched(playwright)
        print(f"Chromium {browser.version}, Python {sys.version.split()[0]}\n")
        print("| measure | goal | found |\n|---|---|---|", flush=True)
        for name in wanted:
            began = time.monotonic()
            place = Path(folder) / name
            place.mkdir()
            try:
                for one in SECTIONS[name](browser, place):
                    print(f"| {one.name} | {one.goal} | {one.found} |", flush=True)
            except FAILURES:
                failed = True
                traceback.print_exc()
                print(f"| section {name} | - | FAILED |", flush=True)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        browser.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
