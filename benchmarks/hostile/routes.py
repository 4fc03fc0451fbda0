"""Requests drawn from an OpenAPI document: any route, any parameters, any bodies, seldom all of them right."""

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from benchmarks.hostile.values import anything, json_bytes, mutated, text
from web import dashboard
from web.frame.page import Page

NODE = "hostile-1"
PLAIN = {
    "metric": "ttft",
    "q": "0.5,0.99",
    "window": "5m",
    "step": "5s",
    "pool": "chat",
    "query": "quantiles",
    "node": NODE,
    "format": "csv",
}
"""Parameters that mean something, by name; a sweep gives those that a route wants."""


def _variables(page: Page) -> dict[str, str]:
    return {name: NODE if "node" in name else "1" for name in page.path_names}


def _address(page: Page) -> str:
    path = re.sub(r":\w+}", "}", page.path)
    return path.format(**_variables(page))


def _parts(page: Page) -> Iterator[str]:
    query = urlencode(_variables(page))
    for part in page.parts:
        yield f"/parts/{page.name}/{part.name}" + (f"?{query}" if query else "")


_ALL_PAGES = tuple(dashboard.PAGES.by_name.values())
PAGES = (*(_address(page) for page in _ALL_PAGES), "/login")
"""Each page of the dashboard."""
PARTS = (*(address for page in _ALL_PAGES for address in _parts(page)), "/parts/now/nothing")
"""Each part of a page, and one that there is not."""
OWN_NAMES = tuple(sorted({name for page in _ALL_PAGES for name in page.path_names}))
"""What pages' own parameters are called."""
SPARED = {
    ("delete", "/api/v1/tokens/{token_id}"),
    ("delete", "/api/v1/sessions/{session_id}"),
    ("delete", "/api/v1/nodes/{node}"),
}
"""What would take the fuzzing's own tokens and sessions away."""
KINDS = (
    "application/json",
    "application/json",
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "",
)


@dataclass(frozen=True)
class Drawn:
    """One request. kind: the content type, empty for none."""

    method: str
    address: str
    body: bytes
    kind: str

    @property
    def told(self) -> str:
        return f"{self.method} {self.address} {self.body[:120]!r}"


class Routes:
    """The operations of one document, but for the `spared` (method, path) and the `endless` paths.

    named: values that mean something, by the name of the property they are for.
    """

    def __init__(
        self,
        document: dict[str, Any],
        *,
        spared: Collection[tuple[str, str]] = (),
        endless: Collection[str] = (),
        named: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._named = named or {}
        self._routes = [
            (method, path, operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if (method, path) not in spared and path not in endless
        ]
        self._schemas = {**document.get("components", {}).get("schemas", {})}
        for _, _, operation in self._routes:
            self._schemas |= _schema_of(operation).get("$defs", {})

    def draw(self, rng: random.Random) -> Drawn:
        method, path, operation = rng.choice(self._routes)
        address = path
        query = []
        for parameter in operation.get("parameters", ()):
            name = parameter["name"]
            value = PLAIN.get(name, "1") if rng.random() < 0.5 else text(rng)
            if parameter["in"] == "path":
                address = address.replace(f"{{{name}}}", quote(value[:2000], safe=""))
            elif rng.random() < 0.6:
                query.append(f"{quote(name)}={quote(value)}")
        if query:
            address += "?" + "&".join(query)
        body, kind = self._body(rng, operation)
        return Drawn(method.upper(), address, body, kind)

    def _body(self, rng: random.Random, operation: dict[str, Any]) -> tuple[bytes, str]:
        content = operation.get("requestBody", {}).get("content", {})
        if not content:
            return (rng.randbytes(20), "text/plain") if rng.random() < 0.1 else (b"", "")
        body = json_bytes(self._of(rng, _schema_of(operation), 4))
        if rng.random() < 0.2:
            body = rng.choice((mutated(rng, body), b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"\xff", b""))
        return body, rng.choice(KINDS)

    def _of(self, rng: random.Random, schema: dict[str, Any], depth: int) -> Any:
        """A value of this schema, though any part may be anything."""
        if depth == 0 or rng.random() < 0.15:
            return anything(rng)
        if "$ref" in schema:
            return self._of(rng, self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._of(rng, rng.choice(schema[choice]), depth)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            wanted = schema.get("properties", {})
            required = schema.get("required", ())
            found = {
                name: rng.choice(self._named[name])
                if name in self._named and rng.random() < 0.7
                else self._of(rng, part, depth - 1)
                for name, part in wanted.items()
                if name in required or rng.random() < 0.4
            }
            return found or {"max_num_seqs": rng.choice((4, anything(rng)))}
        if kind == "array":
            return [self._of(rng, schema.get("items", {}), depth - 1) for _ in range(rng.randrange(3))]
        plain = {
            "integer": 1,
            "number": 0.5,
            "boolean": True,
            "null": None,
            "string": rng.choice(("chat", "ttft", "x")),
        }
        return plain.get(str(kind), anything(rng))


def _schema_of(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    found: dict[str, Any] = content.get("application/json", {}).get("schema", {})
    return found


def drawn_page(rng: random.Random) -> str:
    """The address of a page of the dashboard, or of none, with any parameters."""
    address = rng.choice((*PAGES, *PARTS)).partition("?")[0]
    if rng.random() < 0.3:
        folder = rng.choice(("/nodes/", "/parts/", "/parts/node/", "/live/", "/alerts/", "/", "/studies/"))
        address = folder + quote(text(rng), safe="")
    names = rng.sample(
        (
            *("from", "to", "pool", "node", "revision", "prompt_bucket", "compare", "timezone", "refresh", "fresh"),
            *("metric", "at", "above", "kind", "next", "token", "peak", *OWN_NAMES),
        ),
        3,
    )
    return address + "?" + "&".join(f"{name}={quote(text(rng))}" for name in names)
