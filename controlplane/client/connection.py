"""What all calls stand on: one pool of HTTP connections, one bearer token, answers as the contract's models."""

import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from controlplane.client.named_proxy import authorities, proxy_for
from controlplane.client.raised_errors import raise_for_error
from controlplane.client.salvaged_page import LeftOut, salvaged
from controlplane.contract.bodies.pages import Page
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import LABELS

M = TypeVar("M", bound=BaseModel)
Body = BaseModel | Mapping[str, Any]
"""What is sent: a model, or a document as somebody wrote it, which the service checks."""
UNIX = "unix:"


class Connection:
    """One service at `base_url`, with one bearer token. Use as a context manager, or call `close`.

    `unix:/path` is a service's Unix socket. `tls` says whom to trust and who we are; None: the public authorities.
    `proxy`: the one to go by, see `named_proxy`; that of the environment gets no token.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        proxy: str | None = None,
        auth: httpx.Auth | None = None,
    ) -> None:
        """`headers` go with each request. `auth`: in place of a token, what has one."""
        headers = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        self.base_url = base_url
        trusted = tls or authorities(base_url)
        if base_url.startswith(UNIX):
            transport = httpx.HTTPTransport(uds=base_url.removeprefix(UNIX), verify=trusted)
            base_url = "http://localhost"
        self._http = httpx.Client(
            base_url=base_url,
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            verify=trusted,
            trust_env=False,
            auth=auth,
            proxy=proxy_for(self.base_url, proxy),
        )
        self.left_out = LeftOut()

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        """timeout_s: of a call that takes longer than others; None: the client's own."""
        json = body.model_dump(mode="json", exclude_unset=False) if isinstance(body, BaseModel) else body
        timeout = self._http.timeout if timeout_s is None else httpx.Timeout(timeout_s)
        response = self._http.request(
            method, path, params=query_of(params or {}), headers=dict(headers or {}), json=json, timeout=timeout
        )
        raise_for_error(response)
        return response

    def _one(
        self,
        model: type[M],
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> M:
        answer = self._request(method, path, body=body, params=params, headers=headers, timeout_s=timeout_s)
        return model.model_validate_json(answer.content)

    def _page(self, model: type[M], path: str, **params: Any) -> Page[M]:
        """One page. An item that cannot be read is left out, named in the log and kept in `left_out`."""
        answer = self._request("GET", path, params=params)
        try:
            return Page[model].model_validate_json(answer.content)  # type: ignore[valid-type]
        except ValidationError as error:
            return salvaged(model, path, answer.content, error, self.left_out)

    def every(self, model: type[M], path: str, **params: Any) -> Iterator[M]:
        """All items of a collection, page after page."""
        cursor: str | None = None
        while True:
            page = self._page(model, path, cursor=cursor, **params)
            yield from page.items
            if page.next is None:
                return
            cursor = page.next


def segment(name: str) -> str:
    """A name as one part of a path, whatever is in it. Raises `NotFound` for an empty one, which is no part."""
    if not name:
        raise NotFound("an empty name names nothing")
    # A lone "." or ".." would be taken for a step up the path.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def query_of(params: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Parameters as they stand in an address; those that are None are left out.

    A list of a label is any of its values, and repeated; other lists are one parameter.
    """
    given = {name: value for name, value in params.items() if value is not None}
    return {
        name: [str(one) for one in value]
        if name.removeprefix("b_") in LABELS and isinstance(value, list | tuple)
        else query_text(value)
        for name, value in given.items()
    }


def query_text(value: Any) -> str:
    """One value: a moment in RFC 3339, a list with commas between."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
