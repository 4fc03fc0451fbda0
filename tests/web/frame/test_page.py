"""Pages are named once and found by name; a page with parts that fail is shown without them, and soon."""

import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from markupsafe import escape

from controlplane.contract.errors import BadRequest, NotFound, Unauthenticated, Unavailable
from tests.web.browser_request import request_of
from web.dashboard import PAGES
from web.frame import rendering
from web.frame.broken_parts import TOLD
from web.frame.marks import mark_of
from web.frame.page import Page, Pages, Part, number
from web.frame.rendering import NO_ANSWER, live_address, page_rendered, templates
from web.frame.selection import Selection, selection_of

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
REQUEST = request_of("ann")


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


def test_every_page_and_part_has_its_template() -> None:
    for page in PAGES.by_name.values():
        templates.get_template(f"pages/{page.name}.html")
        assert len({part.name for part in page.parts}) == len(page.parts)
        for part in page.parts:
            templates.get_template(part.file)
            assert page.part(part.name) is part


def test_what_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(NotFound, match="no page 'nothing'"):
        PAGES["nothing"]
    with pytest.raises(NotFound, match="no part 'nothing' of the page fleet"):
        PAGES["fleet"].part("nothing")
    with pytest.raises(AssertionError, match="two pages of one name"):
        Pages.of(PAGES["fleet"], PAGES["fleet"])


def test_a_number_in_an_address_is_one_or_there_is_no_such_thing() -> None:
    assert number(selected(alert="007"), "alert") == 7
    for wrong in ("", "x", "-1", "1.5", "9" * 19, "\N{ARABIC-INDIC DIGIT THREE}"):
        with pytest.raises(NotFound) as refused:
            number(selected(alert=wrong), "alert")
        assert refused.value.detail["field"] == "alert"


def test_the_stream_has_the_pages_address_and_what_it_came_with() -> None:
    page = Page("fleet", "/fleet", "Fleet")
    x, y = mark_of("<b>"), mark_of("")
    shown = {"x": "<b>", "y": ""}
    assert live_address(page, selected(pool="a & b"), shown) == f"/live/fleet?pool=a+%26+b&fresh=x.{x}%2Cy.{y}"
    assert live_address(page, selected(), {}) == "/live/fleet"


def part(name: str, *errors: Exception) -> Part:
    def asked(*_: Any) -> dict[str, Any]:
        for error in errors:
            raise error
        return {"nodes": [], "knobs": []}

    return Part(name, asked, template="fleet")


def opened(*parts: Part) -> str:
    page = Page("fleet", "/fleet", "Fleet", parts, bar=False)
    return bytes(page_rendered(REQUEST, page, None, selected()).body).decode()  # type: ignore[arg-type]


def test_a_part_that_fails_is_told_in_its_place_and_asked_for_by_the_stream() -> None:
    for error, words in ((Unavailable("the store is busy"), "the store is busy"), (httpx.ConnectError("x"), NO_ANSWER)):
        text = opened(part("fleet", error))
        assert f"Nothing to show: {words}" in text and f'data-trouble="{words}"' in text
        assert f'<span id="freshness" role="status">stale: {words}</span>' in text
        assert 'data-stream="/live/fleet"' in text
    well = opened(part("fleet"))
    assert "Nothing to show" not in well and 'role="status">live<' in well
    assert re.search('data-stream="/live/fleet[?]fresh=fleet[.][0-9a-f]{16}"', well)


def test_an_error_of_our_own_in_a_part_takes_no_other_with_it() -> None:
    broken: list[str] = []
    page = Page("fleet", "/fleet", "Fleet", (part("fleet", ZeroDivisionError("x")),), bar=False)
    answer = page_rendered(request_of("ann", broken), page, None, selected())  # type: ignore[arg-type]
    assert f"Nothing to show: {escape(TOLD)}" in bytes(answer.body).decode() and broken == ["fleet/fleet"]


@pytest.mark.parametrize("error", [Unauthenticated("sign in first"), BadRequest("from: wants", field="from")])
def test_what_refuses_the_address_or_the_session_refuses_the_page(error: Exception) -> None:
    with pytest.raises(type(error)):
        opened(part("fleet", error))


def test_a_page_waits_for_its_parts_no_longer_than_it_has_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "PATIENCE_S", -1.0)
    reached: list[str] = []

    def second(*_: Any) -> dict[str, Any]:
        reached.append("second")
        return {"nodes": [], "knobs": []}

    for first in (part("fleet"), part("fleet", httpx.ReadTimeout("late"))):
        opened(first, Part("second", second, template="fleet"))
    assert reached == []
