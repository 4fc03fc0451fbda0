"""A page's live stream (server-sent events): each part's markup when it has changed, and a beat in between.

Events: without a name, `<hx-partial>` elements that htmx brings into the page; `beat`, {"time", "parts"}, the service's
clock and what is up to date by now, at least every `BEAT_S` seconds however long a part takes; `trouble`, {"part",
"message"}, where a part could not be made; `signed-out`, after which the stream ends. Guarantee: what is sent was
answered by the API to this browser's own session.
"""

import asyncio
import html
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import httpx
from anyio import to_thread
from fastapi import Request
from fastapi.sse import format_sse_event

from controlplane.client import Client
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError, Unauthenticated
from web.access.threads import THREADS
from web.frame.page import Page, Part
from web.frame.rendering import part_drawn, words_of
from web.frame.selection import Selection

BEAT_S = 2.0
TICK_S = 0.5
SLOW_BEATS = 3
"""A part that is waited for so long is told."""
SESSION = ""
"""The name of the look at the session, among those of parts."""
SESSION_CHECKED_S = 5.0

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """What came of asking for a part: its markup, or what it was kept from by, or that the session has ended."""

    markup: str | None = None
    trouble: str = ""
    ended: bool = False


SLOW = Look(trouble="no answer yet")


@dataclass(frozen=True)
class Chore:
    """What is looked at again and again, in a thread: a part, or whether the session is open."""

    name: str
    every_s: float
    look: Callable[[], Look]


@dataclass
class Sent:
    """What one browser has been sent: the last markup of each part, its trouble, and what was refreshed since the last
    beat."""

    markup: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    refreshed: list[str] = field(default_factory=list)

    def messages(self, name: str, look: Look) -> list[bytes]:
        """What brings the browser's part up to date: nothing where it is as it was."""
        before = self.trouble.get(name, "")
        self.trouble[name] = look.trouble
        if look.trouble:
            told = json.dumps({"part": name, "message": look.trouble})
            return [event(told, "trouble")] if look.trouble != before else []
        self.refreshed.append(name)
        if look.markup is None or look.markup == self.markup.get(name):
            return []
        self.markup[name] = look.markup
        return [event(partial_of(name, look.markup))]

    def beat(self) -> bytes:
        parts, self.refreshed = self.refreshed, []
        return event(json.dumps({"time": utc_now().isoformat(), "parts": parts}), "beat")


def stream_of(
    request: Request, page: Page, client: Client, at_now: Callable[[], Selection], fresh: frozenset[str]
) -> AsyncIterator[bytes]:
    """The stream of `page`. `fresh`: parts that it was opened with; the others are sent at once."""
    parts = page.parts_of(at_now())
    looks = [Chore(part.name, part.every_s, partial(look_at_part, request, part, client, at_now)) for part in parts]
    session = Chore(SESSION, SESSION_CHECKED_S, partial(look_at_session, client))
    return events(request.is_disconnected, [session, *looks], fresh | {SESSION})


async def events(
    is_disconnected: Callable[[], Awaitable[bool]],
    chores: list[Chore],
    fresh: frozenset[str],
    timer: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[bytes]:
    """One chore at a time. `timer` in seconds; `pause` waits for so many."""
    sent = Sent()
    beaten_s = timer()
    due_s = {chore.name: next_round(beaten_s, chore.every_s) if chore.name in fresh else 0.0 for chore in chores}
    while not await is_disconnected():
        for chore in [chore for chore in chores if due_s[chore.name] <= timer()]:
            due_s[chore.name] = next_round(timer(), chore.every_s)
            looking = asyncio.ensure_future(in_thread(chore.look))
            waited = 0
            while not (await asyncio.wait({looking}, timeout=BEAT_S))[0]:
                waited += 1
                for message in sent.messages(chore.name, SLOW) if waited >= SLOW_BEATS else ():
                    yield message
                beaten_s = timer()
                yield sent.beat()
            look = looking.result()
            if look.ended:
                yield event("{}", "signed-out")
                return
            for message in sent.messages(chore.name, look):
                yield message
            if timer() - beaten_s >= BEAT_S:
                beaten_s = timer()
                yield sent.beat()
        if sent.refreshed or timer() - beaten_s >= BEAT_S - TICK_S:
            beaten_s = timer()
            yield sent.beat()
        await pause(TICK_S)


def next_round(now_s: float, every_s: float) -> float:
    """The next moment at which everybody looks: viewers that look together share the API's answers."""
    return (now_s // every_s + 1.0) * every_s


def look_at_part(request: Request, part: Part, client: Client, at_now: Callable[[], Selection]) -> Look:
    try:
        return Look(str(part_drawn(request, part, client, at_now())))
    except Unauthenticated:
        return Look(ended=True)
    except (TailwrightError, httpx.TransportError) as error:
        return Look(trouble=words_of(error))


def look_at_session(client: Client) -> Look:
    """Whether it is still open. A service that does not answer has not ended it."""
    try:
        client.own_session()
    except Unauthenticated:
        return Look(ended=True)
    except (TailwrightError, httpx.TransportError) as error:
        log.warning("a page's session could not be looked up: %s", error)
        return Look(trouble=words_of(error))
    return Look()


def partial_of(name: str, markup: str) -> str:
    return f'<hx-partial hx-target="#part-{html.escape(name)}" hx-swap="innerMorph">{markup}</hx-partial>'


def event(data: str, name: str | None = None) -> bytes:
    return format_sse_event(data_str=data, event=name)


async def in_thread(work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=THREADS)
