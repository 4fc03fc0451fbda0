"""Jinja2 templates of the dashboard: whole pages and their parts, with the filters that write values for a reader.

Guarantee: a part is drawn by the same template and function whether it comes with its page or by the live stream.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2.environment import TemplateModule

from controlplane.client import Client
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest, TailwrightError, Unauthenticated
from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.contract.trace_url import trace_link
from web.access.sessions import form_token
from web.frame import themes
from web.frame.assets import ASSETS
from web.frame.bar import bar_of
from web.frame.broken_parts import TOLD, broken_parts_of
from web.frame.format import FILTERS, shown_in
from web.frame.marks import mark_of, words_of_marks
from web.frame.page import Page, Part
from web.frame.selection import Selection

NO_ANSWER = "the service does not answer"
PATIENCE_S = 0.15
"""How long a page waits for its parts; those that are not asked for by then come by the live stream."""

templates = Jinja2Templates(Path(__file__).parent.parent / "templates")
templates.env.filters.update(FILTERS)
templates.env.filters["trace_link"] = trace_link
templates.env.globals["utc_now"] = utc_now
templates.env.globals["asset"] = ASSETS.address
templates.env.globals["theme_after"] = themes.AFTER
templates.env.globals["navigation"] = ()
templates.env.globals["prompt_buckets"] = PROMPT_BUCKETS
templates.env.trim_blocks = True
templates.env.lstrip_blocks = True


def rendered(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A whole document."""
    context |= {"form_token": form_token(request), "theme": themes.of(request)}
    return templates.TemplateResponse(request, template, context, status_code=status)


def page_rendered(request: Request, page: Page, client: Client, selection: Selection, **more: Any) -> HTMLResponse:
    """A page with as many of its parts as can be asked for at once. `PATIENCE_S` bounds the others' wait.

    `more`: what its template is told beside what the page itself asks for, such as what is wrong with a form.

    A part that the API refuses is told in its place; what refuses the page's own address refuses the page.
    """
    began_s = time.monotonic()
    whole = page.whole(client, selection) if page.whole else {}
    bar = bar_of(client, selection) if page.bar else None
    if page.one_pool and bar is not None and bar.pool:
        selection = selection.with_pool(bar.pool)
    shown: dict[str, TemplateModule] = {}
    trouble: dict[str, str] = {}
    for part in page.parts_of(selection):
        if (shown or trouble) and time.monotonic() - began_s > PATIENCE_S:
            break
        try:
            shown[part.name] = part_drawn(request, part, client, selection)
        except (Unauthenticated, BadRequest):
            raise  # Of a session that has ended, or of the page's own address.
        except (TailwrightError, httpx.TransportError) as error:
            trouble[part.name] = words_of(error)
        except Exception as error:  # noqa: BLE001 - the other parts are shown.
            broken_parts_of(request).note(f"{page.name}/{part.name}", error)
            trouble[part.name] = TOLD
    context = (
        whole
        | more
        | {
            "page": page,
            "selection": selection,
            "bar": bar,
            "shown": shown,
            "trouble": trouble,
            "live_address": live_address(page, selection, shown),
        }
    )
    with shown_in(selection.zone):
        return rendered(request, f"pages/{page.name}.html", **context)


def words_of(error: TailwrightError | httpx.TransportError) -> str:
    """What keeps a part from being shown, for a reader."""
    return error.message if isinstance(error, TailwrightError) else NO_ANSWER


def part_drawn(request: Request, part: Part, client: Client, selection: Selection) -> TemplateModule:
    """One part as it stands in its place: text that templates take for markup.

    Of who asks it is told the form's token alone: what has it not, and was answered to all alike, others may be shown.
    """
    told = {"form_token": form_token(request), "selection": selection, "part": part}
    told["trace_url"] = request.app.state.trace_url
    with shown_in(selection.zone):
        return templates.get_template(part.file).make_module(told | part.asked(client, selection))


def live_address(page: Page, selection: Selection, shown: Mapping[str, object]) -> str:
    """Where the page's stream is. `shown`: the parts that the page has come with, whose text is markup."""
    fresh = words_of_marks({name: mark_of(str(markup)) for name, markup in shown.items()})
    return f"/live/{page.name}{selection.query(fresh=fresh)}"
