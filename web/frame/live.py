"""A page's live stream (server-sent events): each part's markup when it has changed, and a beat in between.

Events: without a name, `<hx-partial>` elements that htmx brings into the page, whose id says all that the browser then
shows (`marks`); `beat`, {"time", "parts"}, the service's clock and what is up to date by now, at least every `BEAT_S`
seconds however long a part takes; `trouble`, {"part", "message"}, where a part could not be made; `signed-out`, after
which the stream ends. Guarantee: what is sent was answered by the API to this browser's own session, or a moment ago to
another of the same scope (`shared_looks`).
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from anyio import to_thread
from fastapi import Request

from controlplane.contract.bodies.access import Scope
from controlplane.contract.clock import utc_now
from controlplane.serving.joint_lookup import JointLookup
from web.access.threads import THREADS
from web.access.viewer import Viewer
from web.frame.look import SLOW, Look, event, look_at_part, look_at_session
from web.frame.marks import marks_in, words_of_marks
from web.frame.page import Page, Part
from web.frame.selection import Selection
from web.frame.shared_looks import SharedLooks, Sight

BEAT_S = 2.0
TICK_S = 0.5
"""The next beat comes early where it is nearer than this."""
SLOW_BEATS = 3
"""A part that is waited for so long is told."""
SESSION = ""
"""The name of the look at the session, among those of parts."""
SESSION_CHECKED_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True)
class Chore:
    """What is looked at again and again: a part, or whether the session is open."""

    name: str
    every_s: float
    look: Callable[[], Awaitable[Look]]


@dataclass
class Sent:
    """What one browser shows: the mark of each part's markup, its trouble, and what was refreshed since the last
    beat."""

    marks: dict[str, str] = field(default_factory=dict)
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
        if look.markup is None or look.mark == self.marks.get(name):
            return []
        self.marks[name] = look.mark
        return [f"id: {words_of_marks(self.marks)}\n".encode() + look.event_in(name)]

    def beat(self) -> bytes:
        parts, self.refreshed = self.refreshed, []
        return event(json.dumps({"time": utc_now().isoformat(), "parts": parts}), "beat")


@dataclass(frozen=True)
class Opened:
    """A stream as it is asked for. `at_now`: its address' selection; `fresh`: marks of the parts that the page came
    with; `heard`: the id of the last event that the browser has heard, where it comes again."""

    page: Page
    viewer: Viewer
    at_now: Callable[[], Selection]
    fresh: str = ""
    heard: str | None = None

    @property
    def shown(self) -> dict[str, str]:
        """The marks of what stands in the browser."""
        return marks_in(self.fresh if self.heard is None else self.heard)

    @property
    def not_at_once(self) -> frozenset[str]:
        """What need not be looked at before its next round: whoever comes again may have been away for long."""
        return frozenset(self.shown if self.heard is None else ()) | {SESSION}


@dataclass(frozen=True)
class Together:
    """What all streams of a dashboard have in common. `sessions`: looked up together."""

    sessions: JointLookup[Scope | None]
    looks: SharedLooks = field(default_factory=SharedLooks)


def stream_of(request: Request, opened: Opened, together: Together) -> AsyncIterator[bytes]:
    """The stream of a page for one browser."""
    selection = opened.at_now()
    chores = [Chore(SESSION, SESSION_CHECKED_S, partial(look_at_session, together.sessions.find, opened.viewer))]
    for part in opened.page.parts_of(selection):
        chores.append(Chore(part.name, part.every_s, _shared(request, opened, part, selection.query(), together.looks)))
    return events(request.is_disconnected, chores, opened.not_at_once, Sent(opened.shown))


def _shared(
    request: Request, opened: Opened, part: Part, address: str, looks: SharedLooks
) -> Callable[[], Awaitable[Look]]:
    """The look at a part that is drawn for all who look at the same."""
    viewer = opened.viewer

    async def look() -> Look:
        sight = Sight(opened.page.name, part.name, address, viewer.scope, viewer.changes)
        return await looks.look(sight, draw)

    draw = partial(in_thread, partial(look_at_part, request, opened.page, part, viewer, opened.at_now))
    return look


async def events(
    is_disconnected: Callable[[], Awaitable[bool]],
    chores: list[Chore],
    not_at_once: frozenset[str],
    sent: Sent,
    timer: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[bytes]:
    """One chore at a time. `timer` in seconds; `pause` waits for so many."""
    beaten_s = timer()
    due_s = {chore.name: next_round(beaten_s, chore.every_s) if chore.name in not_at_once else 0.0 for chore in chores}
    while not await is_disconnected():
        for chore in [chore for chore in chores if due_s[chore.name] <= timer()]:
            due_s[chore.name] = next_round(timer(), chore.every_s)
            looking = asyncio.ensure_future(chore.look())
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
        await pause(max(0.0, min(beaten_s + BEAT_S, *due_s.values()) - timer()))


def next_round(now_s: float, every_s: float) -> float:
    """The next moment at which everybody looks: those who look together share what is found."""
    return (now_s // every_s + 1.0) * every_s


async def in_thread(work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=THREADS)
