"""ClickHouse over its HTTP interface: statements, and rows in its RowBinary format.

Guarantee: when `insert` returns, all its rows are in the table; an answer that is not 200 is raised with ClickHouse's
own words. Statements hold no text from outside: their parameters are whole numbers.
"""

import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from controlplane.contract.errors import Unavailable
from controlplane.telemetry.frames import row_binary

TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0
"""A host that answers nothing at all costs a start, or a stop, no more than this."""
SETTINGS = {"wait_end_of_query": "1", "async_insert": "0"}
"""Answers come when the work is done, so that a failure half-way is a status and not a line in the body."""


class ClickHouse(ABC):
    """One database of a ClickHouse. Thread-safe."""

    @abstractmethod
    def ask(self, statement: str, body: bytes | None = None) -> bytes:
        """The answer's body. `body`: the data of an INSERT. Raises `Unavailable`."""

    def execute(self, statement: str) -> None:
        self.ask(statement)

    def rows(self, query: str, types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The rows of a query whose columns have these types (see `row_binary`)."""
        return row_binary.decode(self.ask(f"{query} FORMAT RowBinary"), types)

    def insert(self, table: str, columns: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.ask(f"INSERT INTO {table} ({', '.join(columns)}) FORMAT RowBinary", row_binary.encode(rows, types))


class ClickHouseServer(ClickHouse):
    """A server at `url`: http(s)://USER:PASSWORD@HOST:8123/DATABASE. `tls`: whom to trust; None: whom httpx does."""

    def __init__(
        self, url: str, *, tls: ssl.SSLContext | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        parsed = httpx.URL(url)
        headers = {}
        if parsed.username:
            headers = {"X-ClickHouse-User": parsed.username, "X-ClickHouse-Key": parsed.password}
        self._where = f"{parsed.scheme}://{parsed.netloc.decode().rpartition('@')[2]}"
        self._settings = {"database": parsed.path.strip("/") or "default", **SETTINGS}
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        # No proxy of the environment: the password goes to ClickHouse alone.
        self._http = httpx.Client(
            base_url=self._where,
            headers=headers,
            timeout=timeout,
            transport=transport,
            verify=tls or True,
            trust_env=False,
        )

    def ask(self, statement: str, body: bytes | None = None) -> bytes:
        parameters = self._settings if body is None else {**self._settings, "query": statement}
        try:
            answer = self._http.post("/", params=parameters, content=statement.encode() if body is None else body)
        except httpx.HTTPError as error:
            raise Unavailable(f"ClickHouse at {self._where}: {str(error) or type(error).__name__}") from error
        if answer.status_code != 200:
            raise Unavailable(f"ClickHouse at {self._where} answered {answer.status_code}: {answer.text[:500]}")
        return answer.content

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
