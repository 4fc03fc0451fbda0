"""Lighthouse on the first page, as desktop and as phone: installed by npm into a folder that is thrown away."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import FLAGS, Goal, Served, served

PINNED = "lighthouse@13"
INSTALL_LIMIT_S, RUN_LIMIT_S = 120, 90
GOALS = {"desktop": (99, 100, 100), "mobile": (95, 100, 100)}
CATEGORIES = ("performance", "accessibility", "best-practices")


def measure(browser: Browser, folder: Path) -> list[Goal]:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return [Goal("Lighthouse", "-", "SKIPPED: npm is missing")]
    tool = folder / "tool"
    tool.mkdir()
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", PINNED]
    try:
        subprocess.run(command, cwd=tool, check=True, timeout=INSTALL_LIMIT_S, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return [Goal("Lighthouse", "-", f"SKIPPED: npm could not install {PINNED}")]
    with served(folder) as service:
        return [scored(tool, service, form) for form in GOALS]


def scored(tool: Path, service: Served, form: str) -> Goal:
    """The scores of `/` for a form factor. The session's cookie goes as a header."""
    with httpx.Client(base_url=service.url) as signing:
        signing.post("/login", data={"token": service.token})
        cookie = "; ".join(f"{name}={value}" for name, value in signing.cookies.items())
    report = tool / f"{form}.json"
    command = ["node", "node_modules/lighthouse/cli/index.js", f"{service.url}/", "--quiet", "--output=json"]
    command += [f"--output-path={report}", f"--only-categories={','.join(CATEGORIES)}"]
    command += [f"--chrome-flags=--headless=new {' '.join(FLAGS)}"]
    command += ["--extra-headers", json.dumps({"Cookie": cookie}), "--max-wait-for-load=20000"]
    command += ["--preset=desktop"] if form == "desktop" else []
    chrome = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    environment = {**os.environ, "CHROME_PATH": chrome}
    subprocess.run(command, cwd=tool, check=True, timeout=RUN_LIMIT_S, env=environment, capture_output=True)
    told = json.loads(report.read_text())
    scores = [round(100 * (told["categories"][name]["score"] or 0)) for name in CATEGORIES]
    failed = [name for name, audit in told["audits"].items() if audit["score"] == 0]
    below = f"; scored 0: {', '.join(failed)}" if failed else ""
    goal = ", ".join(map(str, GOALS[form]))
    return Goal(f"Lighthouse {form}: {', '.join(CATEGORIES)}", goal, ", ".join(map(str, scores)) + below)
