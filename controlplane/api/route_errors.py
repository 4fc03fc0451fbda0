"""Which of the contract's errors a route can answer with, read from what the route is made of.

Its token (`Needs`), its parameters, its body and its transaction each bring their own; whatever else it can answer is
declared at the route (`responses=answers(...)`). A test walks through each route's code and compares.
"""

from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext

from controlplane.auth.guard import Needs
from controlplane.contract.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    Overloaded,
    PreconditionFailed,
    TailwrightError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from controlplane.db.request_parts import request_session

SHOWN = (
    BadRequest,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    PreconditionFailed,
    TooLarge,
    Unsupported,
    Overloaded,
    Unavailable,
)
"""One class for each status, in the order of the statuses."""
READING = {"GET", "HEAD"}


def errors_of(route: RouteContext) -> set[type[TailwrightError]]:
    """The classes of `SHOWN` that this route answers with."""
    found: set[type[TailwrightError]] = {BadRequest}  # Parameters that nobody knows, or text that nobody can store.
    for dependency in _dependencies(route.dependant):
        if isinstance(dependency.call, Needs):
            found |= {Unauthenticated, Unavailable}  # The database says who it is.
            if dependency.call.scope is not None:
                found.add(Forbidden)
        if dependency.call is request_session:
            found.add(Unavailable)
            if not (route.methods or set()) <= READING:
                found.add(Conflict)  # Two may change the same thing at once.
        if dependency.path_params:
            found.add(NotFound)
    if takes_body(route):
        found |= {TooLarge, Unsupported}
    return found | {cls for cls in SHOWN if "model" not in (route.responses or {}).get(cls.status, {"model": None})}


def needs_of(route: RouteContext) -> Needs | None:
    """What lets a request in; None where everybody may ask."""
    for dependency in _dependencies(route.dependant):
        if isinstance(dependency.call, Needs):
            return dependency.call
    return None


def takes_body(route: RouteContext) -> bool:
    return route.body_field is not None or "requestBody" in (route.openapi_extra or {})


def _dependencies(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _dependencies(inner)
