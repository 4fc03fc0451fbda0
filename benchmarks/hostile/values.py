"""Values nobody should send, drawn from a seeded generator: the vocabulary of all other fuzzing here."""

import json
import random
from typing import Any

NUMBERS = (0, -1, 1, 3, 2**31, 2**53 + 1, 2**63, 10**30, 1.5, -0.0, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    *("", " ", "n", "\r\nX: 1", "\x00", "é", "🂡", "\u202e", '"><script>alert(1)</script>', "{{7*7}}", "../..", "."),
    *(
        "..",
        "%00",
        "%0d%0a",
        "'; DROP TABLE node; --",
        "a" * 300,
        "NaN",
        "2026-01-01T00:00:00Z",
        "5m",
        "null",
        "1" * 5000,
    ),
)


def text(rng: random.Random) -> str:
    return (
        rng.choice(TEXTS)
        if rng.random() < 0.8
        else "".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(9)))
    )


def anything(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON value, numbers included that JSON does not have."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return text(rng)
    if kind == 5:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {text(rng): anything(rng, depth - 1) for _ in range(rng.randrange(4))}


def mutated(rng: random.Random, body: bytes) -> bytes:
    """The same with a few of its bytes changed, cut out or doubled."""
    found = bytearray(body)
    for _ in range(rng.randrange(1, 6)):
        if not found:
            return rng.randbytes(8)
        start = rng.randrange(len(found))
        end = min(len(found), start + rng.randrange(1, 9))
        found[start:end] = rng.choice((b"", rng.randbytes(end - start), bytes(found[start:end]) * 2, b"\xff" * 8))
    return bytes(found)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()
