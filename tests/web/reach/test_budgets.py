"""What a first visit of each page may transfer, and what an open page may ask for: budgets that need no clock."""

import pytest
from playwright.sync_api import Browser

from benchmarks.dashboard_measures.browsing import Served
from benchmarks.dashboard_measures.visits import Visit, visits
from tests.web.conftest import Bare
from web.dashboard import PAGES

FIRST_VISIT_BYTES = 120_000
ASKED_WHILE_OPEN = 2
OPEN_S = 5.0
"""Shorter than the budget's 20 s: a page that polls asks in any five."""


PATHS = [page.path for page in PAGES.navigation()]


@pytest.fixture(scope="module")
def seen(browser: Browser, bare: Bare) -> dict[str, Visit]:
    """Every page's visit: they stay open together, so that all are watched in the same seconds."""
    return visits(browser, Served(bare.url, bare.data_dir, bare.child), PATHS, OPEN_S)


@pytest.mark.browser
@pytest.mark.parametrize("path", PATHS)
def test_a_first_visit_and_an_open_page_are_light(seen: dict[str, Visit], path: str) -> None:
    assert seen[path].answers > 5
    assert seen[path].loaded_bytes <= FIRST_VISIT_BYTES
    assert seen[path].asked_while_open <= ASKED_WHILE_OPEN
