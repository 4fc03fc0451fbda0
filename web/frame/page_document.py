"""A page's document as it is sent: its frame at once, then each part where it stands as soon as it is drawn (chunked
transfer coding, RFC 9112, section 7.1), so that a browser paints the one while the service works on the other.

Guarantee: what refuses a page's own address, or a session that is not open, refuses it before the first byte; what
keeps a part from being drawn afterwards is told in its place, and takes no other with it. Nothing that a page shows can
be taken for a part's place: a place is named by a secret of its document.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import httpx
from fastapi import Request
from fastapi.responses import StreamingResponse
from jinja2.environment import TemplateModule

from controlplane.client import Client
from controlplane.contract.errors import TailwrightError
from web.access.threads import each_on_own_threads
from web.frame.assets import ASSETS
from web.frame.bar import bar_of
from web.frame.broken_parts import TOLD, broken_parts_of
from web.frame.format import shown_in
from web.frame.marks import mark_of, words_of_marks
from web.frame.page import Page, Part
from web.frame.rendering import filled, framed, part_drawn, words_of
from web.frame.selection import Selection

PATIENCE_S = 0.3
"""How long a document goes on with its parts; those that are not begun by then come by the live stream."""
HEADERS = {"X-Accel-Buffering": "no", "Speculation-Rules": f'"{ASSETS.address("following.json")}"'}
"""A proxy would else hold the frame back until the parts are there. And a link's page is asked for when it is pressed,
before it is let go (HTML, "speculative loading"): most of the wait is over by then."""


@dataclass(frozen=True)
class Drawn:
    """A part's markup, or what it is kept from by; neither where nobody has looked yet."""

    markup: TemplateModule | None = None
    trouble: str = ""


@dataclass
class Document:
    """The parts of one page that is being sent. `timer` in seconds."""

    request: Request
    page: Page
    client: Client
    selection: Selection
    timer: Callable[[], float] = time.monotonic
    _secret: str = field(default_factory=lambda: secrets.token_hex(16))
    _marks: dict[str, str] = field(default_factory=dict)

    def place(self, name: str = "", style: str = "") -> str:
        """What stands for a part in the frame until it is drawn; without a name, for the page's stream."""
        return f"{self._secret}:{name}:{style};"

    def pieces(self, frame: str) -> Iterator[str]:
        """The frame with its places filled: what is before the first of them, then each with what follows it."""
        before, *places = re.split(rf"{self._secret}:([\w-]*):([\w -]*);", frame)
        yield before
        began_s = self.timer()
        patience_s = inf if self.selection.paused else PATIENCE_S  # A page that has no stream has all with it.
        for name, style, after in zip(places[::3], places[1::3], places[2::3], strict=True):
            late = self.timer() - began_s > patience_s
            yield (self._part(name, style, late) if name else self._stream()) + after

    def _part(self, name: str, style: str, late: bool) -> str:
        part = self.page.part(name)
        drawn = Drawn() if late or not part.when(self.selection) else self._drawn(part)
        if drawn.markup is not None:
            self._marks[name] = mark_of(str(drawn.markup))
        return filled("components/held.html", self.selection, name=name, style=style, drawn=drawn)

    def _drawn(self, part: Part) -> Drawn:
        try:
            return Drawn(part_drawn(self.request, part, self.client, self.selection))
        except (TailwrightError, httpx.TransportError) as error:
            return Drawn(trouble=words_of(error))
        except Exception as error:  # noqa: BLE001 - the other parts are shown.
            broken_parts_of(self.request).note(f"{self.page.name}/{part.name}", error)
            return Drawn(trouble=TOLD)

    def _stream(self) -> str:
        address = live_address(self.page, self.selection, self._marks)
        return filled("components/live_stream.html", self.selection, address=address)


def page_sent(request: Request, page: Page, client: Client, selection: Selection, **more: Any) -> StreamingResponse:
    """A page, of which the parts follow. `more`: what its template is told beside what the page itself asks for, such
    as what is wrong with a form."""
    if page.own is not None:
        page.own(selection)
    whole = page.whole(client, selection) if page.whole else {}
    bar = bar_of(client, selection) if page.bar else None
    if page.one_pool and bar is not None and bar.pool:
        selection = selection.with_pool(bar.pool)
    document = Document(request, page, client, selection)
    context = whole | more | {"page": page, "selection": selection, "bar": bar, "place": document.place}
    with shown_in(selection.zone):
        frame = framed(request, f"pages/{page.name}.html", context)
    pieces = each_on_own_threads(document.pieces(frame))
    return StreamingResponse(pieces, media_type="text/html", headers=HEADERS)


def live_address(page: Page, selection: Selection, marks: dict[str, str]) -> str:
    """Where the page's stream is. `marks`: of the parts that the page has come with."""
    return f"/live/{page.name}{selection.query(fresh=words_of_marks(marks))}"
