"""Jinja2 templates of the dashboard, with the filters that write values for a reader."""

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates

from controlplane.contract.clock import utc_now
from web import themes
from web.assets import ASSETS
from web.format import FILTERS
from web.sessions import form_token

PAGES_BY_KEY = {
    "overview": "o",
    "fleet": "f",
    "latency": "l",
    "alerts": "a",
    "studies": "s",
    "rollouts": "r",
    "ledger": "e",
    "people": "p",
}
"""The pages of the navigation, each with the key that opens it after "g"."""

templates = Jinja2Templates(Path(__file__).parent / "templates")
templates.env.filters.update(FILTERS)
templates.env.globals["utc_now"] = utc_now
templates.env.globals["asset"] = ASSETS.address
templates.env.globals["theme_after"] = themes.AFTER
templates.env.globals["pages_by_key"] = PAGES_BY_KEY
templates.env.trim_blocks = True
templates.env.lstrip_blocks = True


def rendered(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    context |= {"form_token": form_token(request), "theme": themes.of(request)}
    return templates.TemplateResponse(request, template, context, status_code=status)
