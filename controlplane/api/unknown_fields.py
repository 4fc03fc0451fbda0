"""Refuses fields and parameters that nothing reads: a misspelt setting must not be dropped silently.

Bodies: fields that their model does not have, at any depth. Queries, of /api only (a scraper or a probe may add its
own to the others): parameters that the route does not have.
"""

import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.requests import HTTPConnection
from fastapi.routing import APIRoute
from pydantic import BaseModel

from controlplane.api.json_body import json_body
from controlplane.contract.errors import BadRequest, nearest

_parameters: WeakKeyDictionary[Callable[..., Any], list[str]] = WeakKeyDictionary()


def unknown_fields(annotation: Any, value: Any, place: str = "body") -> Iterator[str]:
    """A message for each field of `value` that no model of `annotation` has, at any depth."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            for inner in items_of(annotation):
                yield from unknown_fields(inner, item, f"{place}.{position}")
        return
    if not isinstance(value, dict):
        return
    models = models_of(annotation, value)
    if not models:
        for name, item in value.items():
            for inner in values_of(annotation):
                yield from unknown_fields(inner, item, f"{place}.{name}")
        return
    fields: dict[str, list[Any]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            fields.setdefault(name, []).append(field.annotation)
    for name, item in value.items():
        if name not in fields:
            yield f"{place}.{name}: no such field, {nearest(name, list(fields))}"
        else:
            yield from unknown_fields(Union[tuple(fields[name])], item, f"{place}.{name}")  # noqa: UP007


def models_of(annotation: Any, value: dict[str, Any]) -> list[type[BaseModel]]:
    """The models that this JSON object may be; none when it may be any object (dict, Any)."""
    members = [member for member in members_of(annotation) if member is not type(None)]
    if not all(isinstance(member, type) and issubclass(member, BaseModel) for member in members):
        return []
    return [model for model in members if _may_be(model, value)] or members


def _may_be(model: type[BaseModel], value: dict[str, Any]) -> bool:
    """Whether no field that tells the forms of a union apart says that it is another one."""
    return all(
        value[name] in get_args(field.annotation)
        for name, field in model.model_fields.items()
        if name in value and get_origin(field.annotation) is Literal
    )


def members_of(annotation: Any) -> Iterator[Any]:
    """The parts of a union, at any depth; else the annotation itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from members_of(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from members_of(member)
    else:
        yield annotation


def items_of(annotation: Any) -> Iterator[Any]:
    """What the items of a list under this annotation are."""
    for member in members_of(annotation):
        if get_origin(member) is list:
            yield get_args(member)[0]
        elif get_origin(member) is tuple:
            yield Union[get_args(member)]  # noqa: UP007


def values_of(annotation: Any) -> list[Any]:
    """What the values of an object of any names are."""
    return [get_args(member)[1] for member in members_of(annotation) if get_origin(member) is dict]


async def refuse_unknown_fields(request: HTTPConnection) -> None:
    """A dependency of every route. Raises `BadRequest` for the first field or parameter that is not known."""
    route = request.scope.get("route")
    if not isinstance(request, Request) or not isinstance(route, APIRoute):
        return
    if route.path.startswith("/api/"):
        _refuse_unknown_parameters(request, route)
    value = await json_body(request)
    if value is None or route.body_field is None:
        return
    for message in unknown_fields(route.body_field.field_info.annotation, value):
        raise BadRequest(message, field=message.partition(":")[0])


def _refuse_unknown_parameters(request: Request, route: APIRoute) -> None:
    if not request.query_params:
        return
    known = _known_parameters(route)
    for name in request.query_params:
        if name not in known:
            hint = nearest(name[:100], known) if known else "this URL takes none"
            raise BadRequest(f"{name[:100]}: no such parameter; {hint}", field=name[:100])


def _known_parameters(route: APIRoute) -> list[str]:
    """To find them takes longer than many a query: they are remembered while there is the route's function."""
    known = _parameters.get(route.endpoint)
    if known is None:
        found = (field for field in get_flat_params(route.dependant) if isinstance(field.field_info, params.Query))
        known = _parameters[route.endpoint] = [field.alias for field in found]
    return known
