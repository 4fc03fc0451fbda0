"""Jinja2 templates of the dashboard: whole pages and their parts, with the filters that write values for a reader.

Guarantee: a part is drawn by the same template and function whether it comes with its page or by the live stream.
"""

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
from controlplane.contract.errors import TailwrightError
from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.contract.trace_url import trace_link
from web.access.sessions import form_token
from web.frame import themes
from web.frame.assets import ASSETS
from web.frame.format import FILTERS, shown_in
from web.frame.page import Part
from web.frame.selection import Selection

NO_ANSWER = "the service does not answer"

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
    """A whole document, of no live parts."""
    return HTMLResponse(framed(request, template, context), status)


def framed(request: Request, template: str, context: Mapping[str, Any]) -> str:
    """A whole document's text, with its parts' places in it."""
    own = {"request": request, "form_token": form_token(request), "theme": themes.of(request)}
    return templates.get_template(template).render({**own, **context})


def filled(template: str, selection: Selection, **context: Any) -> str:
    """A component's text on the clock of the selection."""
    with shown_in(selection.zone):
        return templates.get_template(template).render(selection=selection, **context)


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
