"""The header is one row from 1024 px on, whatever it says; what has no room stands behind "More", by keyboard, too."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.web.conftest import Bare, checked, signed_in
from web.dashboard import PAGES

pytestmark = pytest.mark.browser

ROWS = """() => [...document.querySelectorAll("header > *, header nav > a, header nav > button")]
    .filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect())
    .map((box) => [box.top, box.bottom, box.left, box.right])"""


@pytest.fixture
def at(browser: Browser, bare: Bare) -> Iterator[Any]:
    context = signed_in(browser, bare.url, bare.token())

    def opened(width: int, path: str = "/ledger") -> Page:
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(path)
        return page

    pages = checked(context)
    page = next(pages)
    yield opened
    assert next(pages, None) is None
    context.close()


def is_one_row(page: Page, width: int) -> bool:
    boxes = page.evaluate(ROWS)
    in_one = max(top for top, *_ in boxes) < min(bottom for _, bottom, *_ in boxes)
    apart = sorted((left, right) for _, _, left, right in boxes if right > left)
    return bool(in_one and apart[-1][1] <= width and page.evaluate("document.documentElement.scrollWidth") <= width)


@pytest.mark.parametrize("width", [1920, 1600, 1599, 1280, 1279, 1024])
@pytest.mark.parametrize("path", ["/ledger", "/rollouts", "/"])
def test_the_header_is_one_row(at: Any, width: int, path: str) -> None:
    page = at(width, path)
    expect(page.locator("#freshness")).to_have_text("live")
    assert is_one_row(page, width)
    page.locator("#freshness").evaluate("(one) => { one.textContent = 'stale: the service does not answer'; }")
    assert is_one_row(page, width)


@pytest.mark.parametrize("width", [1920, 1280, 1024])
def test_each_page_is_one_or_two_steps_away_and_once_in_the_navigation(at: Any, width: int) -> None:
    page = at(width)
    navigation = page.get_by_role("navigation", name="Main")
    more = navigation.get_by_role("button", name="More")
    expect(more).to_have_count(0 if width == 1920 else 1)
    if width < 1920:
        more.click()
    expect(navigation.get_by_role("link")).to_have_text([one.title for one in ordered()])
    expect(page.get_by_role("button", name="Sign out")).to_have_count(1)
    violations = Axe().run(page).response["violations"]
    assert [one["id"] for one in violations] == []


def ordered() -> list[Any]:
    """The first ones and then the others, each in the order of the navigation."""
    first = ("now", "explore", "requests", "incidents", "alerts", "fleet")
    return sorted(PAGES.navigation(), key=lambda page: page.name not in first)


def test_more_is_opened_walked_and_left_by_keys(at: Any) -> None:
    page = at(1024, "/fleet")
    more = page.get_by_role("button", name="More")
    more.focus()
    page.keyboard.press("Enter")
    rollouts = page.get_by_role("navigation", name="Main").get_by_role("link", name="Rollouts")
    expect(rollouts).to_be_visible()
    above, below = more.bounding_box(), rollouts.bounding_box()
    assert above and below and below["y"] > above["y"] + above["height"] and abs(below["x"] - above["x"]) < 30
    page.keyboard.press("Escape")
    expect(rollouts).to_be_hidden()
    expect(more).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(len(PAGES.navigation())):
        page.keyboard.press("Tab")
        if rollouts.evaluate("(link) => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Rollouts")
    expect(page.get_by_role("button", name="More: Rollouts")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press(next(one.key for one in PAGES.navigation() if one.name == "studies"))
    expect(page.locator("h1")).to_have_text("Studies")
