"""Errors of a small aiohttp server in the contract's form: ours, and aiohttp's own refusals."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from controlplane.contract.errors import NotFound, TailwrightError, TooLarge


class MethodNotAllowed(TailwrightError):
    status = 405
    code = "method_not_allowed"


def errors_answered(*, largest_bytes: int, too_large: str = "", not_found: str) -> Middleware:
    """The middleware. `too_large` is the mend of a body above `largest_bytes`, `not_found` that of a wrong path."""
    mend = f"; {too_large}" if too_large else ""

    @web.middleware
    async def answered(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except TailwrightError as error:
            found = error
        except web.HTTPRequestEntityTooLarge:
            found = TooLarge(f"body: more than {largest_bytes} bytes{mend}", field="body")
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            found = MethodNotAllowed(f"{request.method} {request.path}: use {allowed}", field="method")
        except web.HTTPNotFound:
            found = NotFound(f"{request.path}: {not_found}", field="path")
        return web.json_response(found.body(), status=found.status)

    return answered
