"""What a first visit of each page may transfer, and what an open page may ask for: budgets that need no clock."""

import pytest
from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Served
from benchmarks.dashboard_measures.visits import visit
from tests.web.conftest import Bare
from web.dashboard import PAGES

FIRST_VISIT_BYTES = 120_000
ASKED_WHILE_OPEN = 2
OPEN_S = 5.0
"""Shorter than the budget's 20 s: a page that polls asks in any five."""


@pytest.mark.browser
@pytest.mark.parametrize("path", [page.path for page in PAGES.navigation()])
def test_a_first_visit_and_an_open_page_are_light(browser: Browser, bare: Bare, path: str) -> None:
    loaded, answers, later = visit(browser, Served(bare.url, bare.data_dir, bare.child), path, OPEN_S)
    assert answers > 5
    assert loaded <= FIRST_VISIT_BYTES
    assert later <= ASKED_WHILE_OPEN
