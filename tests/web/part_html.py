"""A part of a page as its template draws it, from any client: what stands in its place, without a service."""

from datetime import UTC, datetime
from typing import cast

from controlplane.client import Client
from web.frame.page import Page
from web.frame.rendering import templates
from web.frame.selection import selection_of

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
"""The moment that it is drawn for."""


def part_html(page: Page, name: str, client: object, **params: str) -> str:
    """`params`: what the address says, its path's variables among them. Raises what the part itself raises."""
    part = page.part(name)
    selection = selection_of(params, NOW)
    context = part.asked(cast(Client, client), selection)
    return templates.get_template(part.file).render(selection=selection, part=part, **context)
