"""A page's document: its frame goes before its parts, which come in their places or by the stream, each by itself."""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.testclient import TestClient
from markupsafe import escape

from controlplane.contract.errors import BadRequest, Unauthenticated, Unavailable
from tests.web.browser_request import request_of
from web.access.threads import THREADS, each_on_own_threads
from web.frame.broken_parts import TOLD
from web.frame.marks import mark_of
from web.frame.page import Page, Part
from web.frame.page_document import PATIENCE_S, Document, live_address, page_sent
from web.frame.rendering import NO_ANSWER
from web.frame.selection import Selection, selection_of

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
CLIENT: Any = None


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


def part(name: str, *errors: Exception, when: Callable[[Selection], bool] = lambda _: True) -> Part:
    def asked(*_: Any) -> dict[str, Any]:
        for error in errors:
            raise error
        return {"steps": []}

    return Part(name, asked, template="first_steps", when=when)


def document(*parts: Part, timer: Callable[[], float] = lambda: 0.0, **params: str) -> Document:
    page = Page("now", "/", "Now", parts, bar=False)
    return Document(request_of("ann"), page, CLIENT, selected(**params), timer)


def pieces_of(made: Document) -> list[str]:
    """Of a frame with all the page's parts and its stream."""
    places = "".join(f"<i>{made.place(one.name, 'plot')}</i>" for one in made.page.parts)
    return list(made.pieces(f"<h1>Now</h1>{places}{made.place()}<footer>"))


def sent(page: Page, **params: str) -> str:
    """The whole text of its answer."""
    app = FastAPI()

    @app.get("/")
    def answered() -> Response:
        return page_sent(request_of("ann"), page, CLIENT, selected(**params))

    answer = TestClient(app).get("/")
    assert answer.headers["X-Accel-Buffering"] == "no" and answer.headers["Content-Type"].startswith("text/html")
    return answer.text


def test_the_frame_goes_first_and_each_part_as_soon_as_it_is_drawn() -> None:
    drawn: list[str] = []

    def noting(name: str) -> Part:
        def asked(*_: Any) -> dict[str, Any]:
            drawn.append(name)
            return {"steps": []}

        return Part(name, asked, template="first_steps")

    made = document(noting("a"), noting("b"))
    frame = f"<h1>Now</h1>{made.place('a')}<p>{made.place('b', 'plot')}</p>{made.place()}<footer>"
    seen: Iterator[str] = made.pieces(frame)
    assert next(seen) == "<h1>Now</h1>" and drawn == []
    assert 'id="part-a" data-part="a" class="" data-as-of="12:05:00 UTC"' in next(seen) and drawn == ["a"]
    second = next(seen)
    assert 'id="part-b" data-part="b" class="plot"' in second and second.endswith("</p>") and drawn == ["a", "b"]
    assert next(seen).endswith("<footer>") and list(seen) == []


def test_the_stream_begins_with_what_the_page_came_with() -> None:
    page = Page("fleet", "/fleet", "Fleet")
    x, y = mark_of("<b>"), mark_of("")
    address = live_address(page, selected(pool="a & b"), {"x": x, "y": y})
    assert address == f"/live/fleet?pool=a+%26+b&fresh=x.{x}%2Cy.{y}"
    assert live_address(page, selected(), {}) == "/live/fleet"
    last = pieces_of(document(part("a"), part("b", Unavailable("busy")), part("c")))[-1]
    found = re.search('data-stream="/live/now[?]fresh=([^"]*)"', last)
    assert found is not None
    assert [one.split(".")[0] for one in found[1].split("%2C")] == ["a", "c"]  # What failed is asked for at once.


def test_a_part_that_fails_is_told_in_its_place_and_asked_for_by_the_stream() -> None:
    for error, words in ((Unavailable("the store is busy"), "the store is busy"), (httpx.ConnectError("x"), NO_ANSWER)):
        text = "".join(pieces_of(document(part("a", error))))
        assert f"Nothing to show: {words}" in text and f'data-trouble="{words}"' in text
        assert "data-as-of" not in text and 'data-stream="/live/now"' in text
    well = "".join(pieces_of(document(part("a"))))
    assert "Nothing to show" not in well and 'data-trouble="" hidden' in well


@pytest.mark.parametrize("error", [Unauthenticated("sign in first"), BadRequest("node: no such", field="node")])
def test_what_is_refused_after_the_frame_was_sent_is_told_in_its_place(error: Exception) -> None:
    text = "".join(pieces_of(document(part("a", error), part("b"))))
    assert f"Nothing to show: {error}" in text and 'data-part="b" class="plot" data-as-of' in text


def test_an_error_of_our_own_in_a_part_takes_no_other_with_it() -> None:
    broken: list[str] = []
    made = document(part("a", ZeroDivisionError("x")), part("b"))
    made.request = request_of("ann", broken)
    text = "".join(pieces_of(made))
    assert f"Nothing to show: {escape(TOLD)}" in text and broken == ["now/a"]
    assert 'data-part="b" class="plot" data-as-of' in text


def test_parts_for_which_no_patience_is_left_come_by_the_stream() -> None:
    now_s = 0.0

    def slow(*_: Any) -> dict[str, Any]:
        nonlocal now_s
        now_s += 0.6 * PATIENCE_S
        return {"steps": []}

    parts = [Part(name, slow, template="first_steps") for name in "abc"]
    assert [piece.count("data-as-of") for piece in pieces_of(document(*parts, timer=lambda: now_s))] == [0, 1, 1, 0, 0]
    # A page that is paused has no stream: nothing would bring them.
    paused = pieces_of(document(*parts, timer=lambda: now_s, refresh="off"))
    assert [piece.count("data-as-of") for piece in paused] == [0, 1, 1, 1, 0]


def test_a_part_that_the_page_has_not_today_is_an_empty_place() -> None:
    text = "".join(pieces_of(document(part("a", ZeroDivisionError("never asked"), when=lambda _: False))))
    assert '<div id="part-a" data-part="a" class="plot"></div>' in text


def test_nothing_that_is_shown_is_taken_for_a_place() -> None:
    made, other = document(part("a")), document(part("a"))
    text = "".join(made.pieces(f"<p>{other.place('a')}</p>{made.place('a')}"))
    assert str(other.place("a")) in text and text.count('data-part="a"') == 1


def test_a_page_is_its_template_with_its_parts_in_it() -> None:
    page = Page("incidents", "/incidents", "Incidents", (part("incidents"),), bar=False)
    text = sent(page)
    assert text.lstrip().startswith("<!doctype html>")
    assert text.count('data-part="incidents"') == 1 and 'role="status">live<' in text
    assert text.index('data-part="incidents"') < text.index("data-stream=") < text.index("</html>")
    assert "data-stream=" not in sent(page, refresh="off")


@pytest.mark.parametrize("error", [Unauthenticated("sign in first"), BadRequest("sort: wants", field="sort")])
def test_what_refuses_the_address_or_the_session_refuses_the_page(error: Exception) -> None:
    def refuses(*_: Any) -> Any:
        raise error

    request: Request = request_of("ann")
    for page in (Page("now", "/", "Now", own=refuses, bar=False), Page("now", "/", "Now", whole=refuses, bar=False)):
        with pytest.raises(type(error)):
            page_sent(request, page, CLIENT, selected())


def test_pieces_are_made_on_the_dashboards_own_threads() -> None:
    """Were it the API's, pages could hold all of them and wait for its answers."""
    held: list[float] = []

    def pieces() -> Iterator[str]:
        held.append(THREADS.borrowed_tokens)
        yield "one"
        held.append(THREADS.borrowed_tokens)
        yield "two"

    async def all_of() -> list[str]:
        return [piece async for piece in each_on_own_threads(pieces())]

    assert asyncio.run(all_of()) == ["one", "two"] and held == [1, 1]
