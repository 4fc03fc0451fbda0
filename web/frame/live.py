"""A page's live stream (server-sent events): each part's markup when it has changed, and a beat in between.

Events: without a name, `<hx-partial>` elements that htmx brings into the page; `beat`, the service's clock, at least
every `BEAT_S` seconds; `trouble`, {"part", "message"}, where a part could not be made; `signed-out`, after which the
stream ends. Guarantee: what is sent was answered by the API to this browser's own session.
"""

import asyncio
import html
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
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
from web.frame.rendering import part_drawn
from web.frame.selection import Selection

BEAT_S = 2.0
TICK_S = 0.5
SESSION_CHECKED_S = 5.0
NO_ANSWER = "the service does not answer"

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass
class Sent:
    """What one browser has been sent: the last markup of each part, and when each is due again (monotonic seconds)."""

    markup: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    due_s: dict[str, float] = field(default_factory=dict)


async def events(
    request: Request, page: Page, client: Client, at_now: Callable[[], Selection], fresh: frozenset[str]
) -> AsyncIterator[bytes]:
    """The stream. `fresh`: parts that the page was opened with; the others are sent at once."""
    now_s, parts = time.monotonic(), page.parts_of(at_now())
    sent = Sent(due_s={part.name: now_s + part.every_s if part.name in fresh else now_s for part in parts})
    beat_due_s = checked_s = now_s
    while not await request.is_disconnected():
        now_s = time.monotonic()
        if now_s - checked_s >= SESSION_CHECKED_S:
            checked_s = now_s
            if not await in_thread(partial(still_signed_in, client)):
                yield event("{}", "signed-out")
                return
        due = [part for part in parts if sent.due_s[part.name] <= now_s]
        for part in due:
            sent.due_s[part.name] = now_s + part.every_s
            for message in await in_thread(partial(refreshed, request, part, client, at_now(), sent)):
                yield message
        if due or now_s >= beat_due_s:
            beat_due_s = now_s + BEAT_S
            yield event(json.dumps({"time": utc_now().isoformat(), "parts": [part.name for part in due]}), "beat")
        await asyncio.sleep(TICK_S)


def refreshed(request: Request, part: Part, client: Client, selection: Selection, sent: Sent) -> list[bytes]:
    """The messages that bring a browser's part up to date: none where it is as it was."""
    trouble, messages = "", list[bytes]()
    try:
        markup = str(part_drawn(request, part, client, selection))
    except Unauthenticated:
        return []  # The check of the session says so, for the whole page.
    except TailwrightError as error:
        trouble = error.message
    except httpx.TransportError:
        trouble = NO_ANSWER
    else:
        if sent.markup.get(part.name) != markup:
            sent.markup[part.name] = markup
            messages.append(event(partial_of(part, markup)))
    if sent.trouble.get(part.name, "") != trouble:
        sent.trouble[part.name] = trouble
        messages.append(event(json.dumps({"part": part.name, "message": trouble}), "trouble"))
    return messages


def partial_of(part: Part, markup: str) -> str:
    return f'<hx-partial hx-target="#part-{html.escape(part.name)}" hx-swap="innerMorph">{markup}</hx-partial>'


def event(data: str, name: str | None = None) -> bytes:
    return format_sse_event(data_str=data, event=name)


def still_signed_in(client: Client) -> bool:
    """Whether the session is still open. A service that does not answer has not ended it."""
    try:
        client.own_session()
    except Unauthenticated:
        return False
    except (TailwrightError, httpx.TransportError) as error:
        log.warning("a page's session could not be looked up: %s", error)
    return True


async def in_thread(work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=THREADS)
