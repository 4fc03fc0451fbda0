"""The `Allow` header (RFC 9110, 10.2.1): every method that some route of a path takes, not only the first route's."""

from collections.abc import Sequence

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute


def allowed_methods(routes: Sequence[BaseRoute], path: str) -> list[str]:
    """In alphabetical order; empty where no route has the path."""
    found: set[str] = set()
    for route in iter_route_contexts(routes):
        pattern = getattr(route, "path_regex", None)
        if pattern is not None and pattern.match(path):
            found |= route.methods or set()
    return sorted(found)
