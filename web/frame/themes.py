"""Light or dark: as the system has it, or as this browser's reader chose; kept in a cookie, drawn by the server.

Guarantee: a cookie of any other value counts as none.
"""

from fastapi import Request, Response

from controlplane.contract.errors import BadRequest
from web.access.sessions import is_secure

COOKIE = "tailwright_theme"
COOKIE_AGE_S = 365 * 86_400
SYSTEM = "auto"
AFTER = {SYSTEM: "light", "light": "dark", "dark": SYSTEM}
"""Each theme, with the one that the switch changes it to."""


def of(request: Request) -> str:
    chosen = request.cookies.get(COOKIE, SYSTEM)
    return chosen if chosen in AFTER else SYSTEM


def keep(request: Request, response: Response, theme: str) -> None:
    """Raises `BadRequest` for what is no theme."""
    if theme not in AFTER:
        raise BadRequest(f"theme: {theme[:20]!r} is none of {', '.join(AFTER)}", field="theme")
    response.set_cookie(
        COOKIE, theme, max_age=COOKIE_AGE_S, httponly=True, samesite="lax", secure=is_secure(request), path="/"
    )
