"""One look: whatever goes wrong is told, and what is of one session alone says so."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import BadRequest, Unauthenticated, Unavailable
from tests.web.browser_request import request_of, secret_of
from web.access.sessions import form_token
from web.access.shared_answers import SharedAnswers, SharingTransport
from web.access.viewer import Viewer
from web.frame import look, rendering
from web.frame.broken_parts import TOLD
from web.frame.look import Look, look_at_part, look_at_session
from web.frame.page import Page, Part
from web.frame.selection import Selection, selection_of

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
PAGE = Page("now", "/", "Now")


def now() -> Selection:
    return selection_of({}, NOW)


def viewer() -> Viewer:
    inner = httpx.MockTransport(lambda request: httpx.Response(200, json={"items": [], "next": None}))
    return Viewer("http://service", secret_of("ann"), SharingTransport(inner, SharedAnswers(), Scope.READ))


def looked_up(answer: Scope | Exception | None, of: Viewer) -> Look:
    async def find(secret: str) -> Scope | None:
        assert secret == of.secret
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asyncio.run(look_at_session(find, of))


def test_an_ended_session_is_known_and_an_open_one_by_what_it_may_do_now() -> None:
    of = viewer()
    assert looked_up(None, of) == Look(ended=True) and of.scope is Scope.READ
    assert looked_up(Scope.ADMIN, of) == Look() and of.scope is Scope.ADMIN


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (Unavailable("busy"), Look(trouble="busy")),
        (httpx.ConnectError("refused"), Look(trouble=rendering.NO_ANSWER)),
        (httpx.ReadTimeout("late"), Look(trouble=rendering.NO_ANSWER)),
    ],
)
def test_an_api_that_does_not_answer_has_not_ended_the_session(error: Exception, found: Look) -> None:
    of = viewer()
    assert looked_up(error, of) == found and of.scope is Scope.READ


def raising(error: Exception) -> Part:
    def asked(*_: Any) -> dict[str, Any]:
        raise error

    return Part("p", asked, template="first_steps")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (BadRequest("above: wants a number", field="above"), Look(trouble="above: wants a number")),
        (httpx.ConnectError("refused"), Look(trouble=rendering.NO_ANSWER)),
        # It is the end of this session, not of all who look at the part.
        (Unauthenticated("sign in first"), Look(ended=True, own=True)),
    ],
)
def test_a_part_that_is_refused_says_why(error: Exception, found: Look) -> None:
    assert look_at_part(request_of("ann"), PAGE, raising(error), viewer(), now) == found


def test_an_error_of_our_own_is_the_parts_trouble_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []
    request, part = request_of("ann", counted), raising(ZeroDivisionError("of nothing"))
    with caplog.at_level(logging.ERROR):
        found = [look_at_part(request, PAGE, part, viewer(), now) for _ in range(3)]
    assert found == [Look(trouble=TOLD)] * 3
    assert counted == ["now/p"] * 3
    assert caplog.text.count("ZeroDivisionError: of nothing") == 1


def test_what_was_answered_to_all_alike_is_for_all() -> None:
    part = Part("p", lambda client, _: {"nodes": client.nodes()}, template="first_steps")
    found = look_at_part(request_of("ann"), PAGE, part, viewer(), now)
    assert found.markup is not None and not found.own


def test_what_was_answered_to_this_session_is_its_own() -> None:
    part = Part("p", lambda client, _: {"sessions": client.sessions()}, template="first_steps")
    found = look_at_part(request_of("ann"), PAGE, part, viewer(), now)
    assert found.markup is not None and found.own

    def refused(client: Any, _: Any) -> dict[str, Any]:
        client.sessions()
        raise BadRequest("no")

    assert look_at_part(request_of("ann"), PAGE, Part("p", refused, template="first_steps"), viewer(), now).own


def test_what_holds_the_sessions_token_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for markup, own in (("<b>{}</b>", True), ("<b></b>", False)):
        monkeypatch.setattr(look, "part_drawn", lambda request, *_, m=markup: m.format(form_token(request)))
        assert look_at_part(request_of("ann"), PAGE, Part("p", lambda *_: {}), viewer(), now).own is own


def test_a_looks_event_is_written_once_for_each_place() -> None:
    found = Look("<p>\n</p>")
    assert found.event_in("a") is found.event_in("a")
    assert b"#part-a" in found.event_in("a") and b"#part-b" in found.event_in("b")
