"""What a first visit of the dashboard transfers, and how many requests an open page makes, in a real Chromium.

`python -m benchmarks.dashboard`: a service without nodes, its pages with an empty browser cache each. Bytes are what
came over the wire, heads included (Chrome DevTools Protocol, `Network.loadingFinished`), in kB of 1,000.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, sync_playwright

from agents.demo.engines import TAILWRIGHT
from agents.demo.processes import Processes
from tests.processes import free_port, wait_for

PAGES = ("/", "/explore?pool=chat", "/fleet", "/ledger")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def visit(browser: Browser, url: str, token: str, path: str, open_s: float) -> tuple[int, int, int]:
    """Bytes and answers until the page is loaded, and answers in `open_s` seconds after that."""
    context = browser.new_context(base_url=url)
    try:
        context.request.post("/login", form={"token": token}, max_redirects=0)
        page = context.new_page()
        wire = context.new_cdp_session(page)
        wire.send("Network.enable")
        sizes: list[float] = []

        def finished(event: dict[str, Any]) -> None:
            sizes.append(event["encodedDataLength"])

        wire.on("Network.loadingFinished", finished)
        page.goto(path, wait_until="load")
        page.wait_for_timeout(300)
        loaded, answers = round(sum(sizes)), len(sizes)
        page.wait_for_timeout(1000 * open_s)
        return loaded, answers, len(sizes) - answers
    finally:
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open-s", type=float, default=20.0, help="how long each page stays open, in seconds")
    open_s = parser.parse_args().open_s
    with tempfile.TemporaryDirectory() as folder:
        processes, port, data_dir = Processes(Path(folder) / "logs"), free_port(), Path(folder) / "data"
        url = f"http://127.0.0.1:{port}"
        processes.start("service", [*TAILWRIGHT, "up", "--data-dir", str(data_dir), "--port", str(port), "--no-tuner"])
        try:
            wait_for("the service is ready", lambda: httpx.get(f"{url}/readyz").status_code == 200)
            token = (data_dir / "dashboard-token").read_text().strip()
            with sync_playwright() as playwright:
                executable = shutil.which("chromium") or shutil.which("chromium-browser")
                browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
                print(f"Chromium {browser.version}, Python {sys.version.split()[0]}")
                for path in PAGES:
                    size, answers, later = visit(browser, url, token, path, open_s)
                    print(f"{path:22} {size / 1000:8.1f} kB in {answers:2} answers; {later:3} answers in {open_s:g} s")
                browser.close()
        finally:
            processes.stop()


if __name__ == "__main__":
    main()
