"""What all calls stand on: one pool of HTTP connections, one bearer token, answers as the contract's models."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from controlplane.client.error_answer import raise_for_error
from controlplane.contract.pages import Page

M = TypeVar("M", bound=BaseModel)


class Connection:
    """One service at `base_url`, with one bearer token. Use as a context manager, or call `close`."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_s, transport=transport)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(
        self, method: str, path: str, *, body: BaseModel | None = None, params: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        json = None if body is None else body.model_dump(mode="json", exclude_unset=False)
        response = self._http.request(method, path, params=query_of(params or {}), json=json)
        raise_for_error(response)
        return response

    def _one(
        self,
        model: type[M],
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> M:
        return model.model_validate_json(self._request(method, path, body=body, params=params).content)

    def _page(self, model: type[M], path: str, **params: Any) -> Page[M]:
        answer = self._request("GET", path, params=params)
        return Page[model].model_validate_json(answer.content)  # type: ignore[valid-type]

    def every(self, model: type[M], path: str, **params: Any) -> Iterator[M]:
        """All items of a collection, page after page."""
        cursor: str | None = None
        while True:
            page = self._page(model, path, cursor=cursor, **params)
            yield from page.items
            if page.next is None:
                return
            cursor = page.next


def query_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as they stand in an address; those that are None are left out."""
    return {name: query_text(value) for name, value in params.items() if value is not None}


def query_text(value: Any) -> str:
    """One value: a moment in RFC 3339, a list with commas between."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
