"""The API's document (OpenAPI) made true: every error that a route answers with, its token's scope, examples of bodies.

FastAPI writes what it knows (parameters, bodies, good answers). This adds what the routes are made of (`route_errors`)
and takes out what the service never sends (422).
"""

from collections.abc import Iterator
from typing import Any

from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute

from controlplane.api.body_examples import EXAMPLES
from controlplane.api.error_examples import example_of
from controlplane.api.route_errors import SHOWN, errors_of, needs_of
from controlplane.auth.guard import Needs
from controlplane.contract.bodies.access import IMPLIED, Scope
from controlplane.contract.error_answer import ErrorAnswer
from controlplane.contract.errors import Overloaded, TailwrightError, Unauthenticated

BEARER = "bearer"
_SCHEMAS = "#/components/schemas/"
_NEVER_SENT = "422"


def complete(document: dict[str, Any], routes: list[BaseRoute]) -> dict[str, Any]:
    """The document of these routes with all of that; changed in place."""
    for route in iter_route_contexts(routes):
        if not getattr(route, "include_in_schema", False) or route.path_format not in document["paths"]:
            continue
        for method in route.methods or ():
            operation = document["paths"][route.path_format].get(method.lower())
            if operation is not None:
                _complete_operation(operation, route)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas |= _error_schemas()
    _close_bodies(document)
    components["responses"] = {cls.__name__: _response(cls) for cls in SHOWN}
    components["securitySchemes"] = {
        BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token: the file `admin-token` of the data folder, or one of POST /api/v1/tokens.",
        }
    }
    return document


def _complete_operation(operation: dict[str, Any], route: RouteContext) -> None:
    responses = operation["responses"]
    responses.pop(_NEVER_SENT, None)
    for cls in SHOWN:
        if cls in errors_of(route):
            responses[str(cls.status)] = {"$ref": f"#/components/responses/{cls.__name__}"}
    operation["responses"] = dict(sorted(responses.items()))
    for parameter in operation.get("parameters", ()):
        _without_null(parameter["schema"])
    needs = needs_of(route)
    if needs is not None:
        operation["security"] = [{BEARER: [] if needs.scope is None else [needs.scope.value]}]
        operation["description"] = f"{operation.get('description', '')}\n\n{_who(needs)}".strip()
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").removeprefix(_SCHEMAS)
    if name in EXAMPLES:
        content["examples"] = {
            title: {"summary": title, "value": value.model_dump(mode="json", exclude_unset=True)}
            for title, value in EXAMPLES[name].items()
        }


def _close_bodies(document: dict[str, Any]) -> None:
    """Models of bodies take no fields but their own (`unknown_fields`); answers may get more in later versions."""
    schemas = document["components"]["schemas"]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    waiting = {name for operation in operations for name in _named(operation.get("requestBody"))}
    closed: set[str] = set()
    while waiting:
        name = waiting.pop()
        closed.add(name)
        if "properties" in schemas[name]:
            schemas[name]["additionalProperties"] = False
        waiting |= set(_named(schemas[name])) - closed


def _named(schema: Any) -> Iterator[str]:
    """The models that a part of the document refers to."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_SCHEMAS)
        for inner in schema.values():
            yield from _named(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _named(inner)


def _without_null(schema: dict[str, Any]) -> None:
    """A parameter is there or not: nothing in an address means null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema.update(kinds[0])


def _who(needs: Needs) -> str:
    if needs.scope is None:
        return "Needs a token of any scope."
    enough = [scope.value for scope in Scope if needs.scope in IMPLIED[scope]]
    return f"Needs a token of scope {' or '.join(f'`{scope}`' for scope in enough)}."


def _error_schemas() -> dict[str, Any]:
    schema = ErrorAnswer.model_json_schema(ref_template=_SCHEMAS + "{model}")
    return {**schema.pop("$defs"), ErrorAnswer.__name__: schema}


def _response(cls: type[TailwrightError]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": cls.__doc__,
        "content": {
            "application/json": {
                "schema": {"$ref": f"{_SCHEMAS}{ErrorAnswer.__name__}"},
                "example": example_of(cls).body(),
            }
        },
    }
    if cls is Overloaded:
        response["headers"] = {
            "Retry-After": {
                "description": "in how many seconds to try again",
                "required": True,
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    if cls is Unauthenticated:
        response["headers"] = {
            "WWW-Authenticate": {"description": "`Bearer`", "required": True, "schema": {"type": "string"}}
        }
    return response
