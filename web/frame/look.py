"""One look at what a page shows: a part's markup or what keeps it from being drawn, or whether the session is open.

Guarantee: whatever goes wrong is an answer, never an exception; what holds anything of one session alone says so.
"""

import html
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property

import httpx
from fastapi import Request
from fastapi.sse import format_sse_event

from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import TailwrightError, Unauthenticated
from web.access.sessions import form_token
from web.access.viewer import Viewer
from web.frame.broken_parts import TOLD, broken_parts_of
from web.frame.marks import mark_of
from web.frame.page import Page, Part
from web.frame.rendering import part_drawn, words_of
from web.frame.selection import Selection

FindScope = Callable[[str], Awaitable[Scope | None]]
"""What the session of a secret may do; None where it has ended."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """What came of asking for a part: its markup, or what it was kept from by, or that the session has ended. `own`: it
    is of this session alone, and nobody else may be shown it."""

    markup: str | None = None
    trouble: str = ""
    ended: bool = False
    own: bool = False
    _events: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def mark(self) -> str:
        """What tells its markup from another; empty without one."""
        return "" if self.markup is None else mark_of(self.markup)

    def event_in(self, name: str) -> bytes:
        """What brings the markup into the place `name`; written once for all who share the look."""
        if name not in self._events:
            self._events[name] = event(partial_of(name, self.markup or ""))
        return self._events[name]


SLOW = Look(trouble="no answer yet")


def look_at_part(request: Request, page: Page, part: Part, viewer: Viewer, at_now: Callable[[], Selection]) -> Look:
    before = viewer.own_answers
    try:
        markup = str(part_drawn(request, part, viewer, at_now()))
    except Unauthenticated:
        return Look(ended=True, own=True)
    except (TailwrightError, httpx.TransportError) as error:
        return Look(trouble=words_of(error), own=viewer.own_answers != before)
    except Exception as error:  # noqa: BLE001 - the other parts go on.
        broken_parts_of(request).note(f"{page.name}/{part.name}", error)
        return Look(trouble=TOLD, own=viewer.own_answers != before)
    return Look(markup, own=viewer.own_answers != before or holds(markup, form_token(request)))


def holds(markup: str, token: str) -> bool:
    """Whether a form in it has the session's own token."""
    return bool(token) and token in markup


async def look_at_session(find: FindScope, viewer: Viewer) -> Look:
    """Whether it is still open, and what it may do by now. A service that does not answer has not ended it."""
    try:
        scope = await find(viewer.secret)
    except (TailwrightError, httpx.TransportError) as error:
        log.warning("a page's session could not be looked up: %s", error)
        return Look(trouble=words_of(error))
    if scope is None:
        return Look(ended=True)
    viewer.scope = scope
    return Look()


def partial_of(name: str, markup: str) -> str:
    return f'<hx-partial hx-target="#part-{html.escape(name)}" hx-swap="innerMorph">{markup}</hx-partial>'


def event(data: str, name: str | None = None) -> bytes:
    return format_sse_event(data_str=data, event=name)
