"""The JSON body of a request whose route takes one, for checks that run before the route's own."""

from typing import Any

from fastapi import Request
from fastapi.params import Form
from fastapi.routing import APIRoute


async def json_body(request: Request) -> Any:
    """The parsed body; None where the route takes none, or where the route itself will say that it is no JSON."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or route.body_field is None or isinstance(route.body_field.field_info, Form):
        return None
    try:
        return await request.json()
    except ValueError:
        return None
