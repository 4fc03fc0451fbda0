"""Drawings in a real browser, as the gallery shows them."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture
def gallery(bare_page: Page) -> Page:
    bare_page.goto("/gallery")
    return bare_page


def test_a_sparkline_is_seen_and_said(gallery: Page) -> None:
    expect(gallery.get_by_role("img", name="p99 1.63 s, was 1.20 s")).to_be_visible()
    expect(gallery.get_by_role("img", name="p99: no data")).to_be_visible()
    expect(gallery.locator(".spark .last.beyond")).to_have_count(1)


def test_waterfalls_have_one_scale(gallery: Page) -> None:
    rows = gallery.locator(".waterfalls tbody tr")
    expect(rows).to_have_count(3)
    lengths = [
        rows.nth(at).locator("rect.part-prefill").evaluate("(bar) => bar.getBoundingClientRect().width")
        for at in (0, 1)
    ]
    assert lengths[0] == pytest.approx(lengths[1], abs=0.1) and lengths[0] > 10
    large = gallery.get_by_role("figure", name="Where the time went: req-1")
    expect(large).to_contain_text("mostly queue: 1.90 s")
    expect(large.locator("svg.waterfall-part .ghost")).to_have_count(6)
