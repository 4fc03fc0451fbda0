"""A link's page is asked for when the link is pressed, so that most of the wait is over when it is let go."""

import json

import pytest
from playwright.sync_api import Page

from web.frame.assets import ASSETS
from web.frame.page_document import HEADERS

RULES = ASSETS.address("following.json")


def test_the_rules_are_a_file_of_ours_and_wait_for_the_press() -> None:
    asset = ASSETS.found(HEADERS["Speculation-Rules"].strip('"'))
    assert asset is not None and asset.media_type == "application/speculationrules+json"
    (rule,) = json.loads(asset.bodies["identity"])["prefetch"]
    assert rule["eagerness"] == "conservative"  # Figures that were fetched on a hover may be minutes old.


@pytest.mark.browser
def test_a_pressed_links_page_is_asked_for_before_it_is_let_go(bare_page: Page) -> None:
    with bare_page.expect_response(lambda answer: answer.url.endswith(RULES)):
        bare_page.goto("/fleet")
    bare_page.get_by_role("link", name="Requests", exact=True).first.hover()
    with bare_page.expect_request(lambda asked: asked.headers.get("sec-purpose") == "prefetch"):
        bare_page.mouse.down()
    with bare_page.expect_navigation():
        bare_page.mouse.up()
    came = bare_page.evaluate("() => performance.getEntriesByType('navigation')[0].deliveryType")
    assert came == "navigational-prefetch" and bare_page.url.endswith("/requests")
