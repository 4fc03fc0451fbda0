"""The README's picture: the page Now of a running service, as Chromium draws it.

python deploy/overview_picture.py http://127.0.0.1:7300 DATA_DIR/dashboard-token docs/overview.png
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 800
SETTLE_MS = 6000
"""For the figures and charts to come in."""


def main() -> int:
    url, token_file, file = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(base_url=url, viewport={"width": WIDTH, "height": HEIGHT})
        page = context.new_page()
        page.goto("/login")
        page.fill("input[name=token]", token_file.read_text().strip())
        page.click("form button")
        page.goto("/")
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=file)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
