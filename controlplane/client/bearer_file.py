"""A bearer token in a file, which somebody may put another into while a client lives.

Guarantee: the file is read again only after a 401, and the request is sent once more only where there is another token
in it by then; no request is sent more than twice.
"""

from collections.abc import Generator
from pathlib import Path

import httpx


class BearerFile(httpx.Auth):
    """`token`: what the file held to begin with. A file that cannot be read any more leaves the token as it is."""

    def __init__(self, path: Path, token: str) -> None:
        self._path = path
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        sent = self._token
        request.headers["Authorization"] = f"Bearer {sent}"
        answer = yield request
        if answer.status_code != 401:
            return
        try:
            self._token = self._path.read_text().strip() or sent
        except (OSError, ValueError):
            return
        if self._token != sent:
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request
