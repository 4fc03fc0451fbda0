"""Refuses text that no database here can keep: a zero byte (PostgreSQL), half of a surrogate pair (no UTF-8 form)."""

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.requests import HTTPConnection

from controlplane.api.json_body import json_body
from controlplane.contract.errors import BadRequest


def unstorable(value: Any, place: str) -> Iterator[str]:
    """The place of each text within a JSON value, key or value, that cannot be kept."""
    if isinstance(value, str):
        if "\0" in value or (not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value)):
            yield place
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from unstorable(name, f"{place}.{name}")
            yield from unstorable(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from unstorable(inner, f"{place}.{position}")


async def refuse_unstorable_text(request: HTTPConnection) -> None:
    """A dependency of every route. Raises `BadRequest` for the first such text in path, query or body."""
    if not isinstance(request, Request):
        return
    values = [(name, value) for name, value in request.path_params.items()]
    values += [(name, value) for name, value in request.query_params.multi_items()]
    values.append(("body", await json_body(request)))
    for name, value in values:
        for place in unstorable(value, name):
            raise BadRequest(f"{place}: holds a zero byte or half of a surrogate pair", field=place)
