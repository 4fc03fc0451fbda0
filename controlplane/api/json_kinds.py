"""Refuses JSON values of another kind than their field says: true or "5" for a number, 1 for true, 0 for a date.

Pydantic reads such values as what was wanted; the API's document says that they are wrong, and a configuration in
which `true` became the number 1 is not the one that somebody meant.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Union

from fastapi import Request
from fastapi.requests import HTTPConnection
from fastapi.routing import APIRoute
from pydantic import AwareDatetime

from controlplane.api.json_body import json_body
from controlplane.api.unknown_fields import items_of, members_of, models_of, values_of
from controlplane.contract.errors import BadRequest

_TIME = "a date and time as text, RFC 3339"
_DATE_AND_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")
"""How one begins: text of digits alone would be read as seconds since 1970, a date as its midnight."""
_WANTED: dict[Any, str] = {int: "an integer", float: "a number", bool: "true or false"}
_WANTED |= {datetime: _TIME, AwareDatetime: _TIME}


def wrong_kinds(annotation: Any, value: Any, place: str = "body") -> Iterator[str]:
    """A message for each value of another kind than all that `annotation` allows, at any depth."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            for inner in items_of(annotation):
                yield from wrong_kinds(inner, item, f"{place}.{position}")
    elif isinstance(value, dict):
        fields = _fields(annotation, value)
        for name, item in value.items():
            for inner in fields.get(name, values_of(annotation)):
                yield from wrong_kinds(inner, item, f"{place}.{name}")
    elif value is not None:
        wanted = [member for member in members_of(annotation) if member is not type(None)]
        if wanted and all(one in _WANTED for one in wanted) and not any(_fits(value, one) for one in wanted):
            words = " or ".join(dict.fromkeys(_WANTED[one] for one in wanted))
            yield f"{place}: wants {words}, got {json.dumps(value)[:80]}"


def _fields(annotation: Any, value: dict[str, Any]) -> dict[str, list[Any]]:
    """What a field may be, by its name. Models of a union that share a name share what is allowed there."""
    found: dict[str, list[Any]] = {}
    for model in models_of(annotation, value):
        for name, field in model.model_fields.items():
            found.setdefault(name, []).append(field.annotation)
    return {name: [Union[tuple(each)]] for name, each in found.items()}  # noqa: UP007


def _fits(value: Any, wanted: Any) -> bool:
    if wanted is bool:
        return isinstance(value, bool)
    if _WANTED[wanted] == _TIME:
        return isinstance(value, str) and _DATE_AND_TIME.match(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


async def refuse_wrong_kinds(request: HTTPConnection) -> None:
    """A dependency of every route. Raises `BadRequest` that tells all such values of the body."""
    route = request.scope.get("route")
    if not isinstance(request, Request) or not isinstance(route, APIRoute) or route.body_field is None:
        return
    found = list(wrong_kinds(route.body_field.field_info.annotation, await json_body(request)))
    if found:
        problems = [
            {"field": field, "message": message} for field, _, message in (one.partition(": ") for one in found)
        ]
        raise BadRequest("; ".join(found[:3]), field=problems[0]["field"], errors=problems)
