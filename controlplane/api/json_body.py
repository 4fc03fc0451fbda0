"""The JSON body of a request whose route takes one, for checks that run before the route's own.

Guarantee: a body of another content type is refused before anybody parses it, and one that is nested deeper than any
model here before anybody walks through it.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import Request
from fastapi.params import Form
from fastapi.routing import APIRoute

from controlplane.contract.errors import BadRequest, Unsupported

MEDIA_TYPE = "application/json"
DEEPEST = 64
"""Levels of objects and lists; the deepest body that any route takes has nine."""


async def json_body(request: Request) -> Any:
    """The parsed body; None where the route takes none, or where nothing was sent.

    Raises `Unsupported` for another content type, `BadRequest` for what is no JSON or nested too deeply.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or route.body_field is None or isinstance(route.body_field.field_info, Form):
        return None
    if not await request.body():
        return None  # The route itself says what is missing.
    stated = request.headers.get("Content-Type", "")
    if stated.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise Unsupported(f"Content-Type: wants {MEDIA_TYPE}, got {stated[:100]!r}", field="Content-Type")
    try:
        value = await request.json()
    except (ValueError, RecursionError) as error:
        raise BadRequest("body: not JSON in UTF-8, or nested too deeply", field="body") from error
    if _deeper_than(DEEPEST, value):
        raise BadRequest(f"body: nested more than {DEEPEST} levels deep", field="body")
    return value


def _deeper_than(levels: int, value: Any) -> bool:
    """Looked at level by level: a walk that calls itself would end as the parser does."""
    level = [value]
    for _ in range(levels + 1):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return False
    return True


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()
