"""Text of the model's domain as token ids: the Python standard library's own sources, tokenised by the engine.

Guarantee: the same interpreter and engine give the same tokens. The last part of the text, `HELD_OUT_SHARE` of the
files, is never used for prompts of a replay: the quality gate reads it.
"""

import os
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

import httpx

from controlplane.client.named_proxy import authorities, unreached
from controlplane.contract.errors import Unavailable
from tuner.workload.trace import hash_id

HELD_OUT_SHARE = 0.1
SKIPPED = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "encodings", "pydoc_data"}
)
LEAST_BYTES = 4_000
_PIECE_CHARACTERS = 16_000
Tokenize = Callable[[str], list[int]]


def sources(*, held_out: bool = False) -> list[Path]:
    """Module files of the standard library in a fixed, mixed order; the held-out ones or all the others."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    bound = int(HELD_OUT_SHARE * 2**63)
    ordered = sorted((hash_id(str(path.relative_to(folder))), path) for path in _modules(folder))
    return [path for order, path in ordered if (order < bound) == held_out]


@cache
def _modules(folder: Path) -> tuple[Path, ...]:
    """Looked for once a process, and never below a skipped folder: installed packages are many times the library."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        modules = (Path(place, name) for name in files if name.endswith(".py"))
        found += [path for path in modules if path.stat().st_size > LEAST_BYTES]
    return tuple(found)


def read_tokens(tokenize: Tokenize, wanted: int, *, held_out: bool = False) -> list[int]:
    """At least `wanted` tokens, when there are as many, read file after file."""
    tokens: list[int] = []
    for path in sources(held_out=held_out):
        text = path.read_text(encoding="utf-8", errors="ignore")
        for begin in range(0, len(text), _PIECE_CHARACTERS):
            tokens += tokenize(text[begin : begin + _PIECE_CHARACTERS])
            if len(tokens) >= wanted:
                return tokens
    return tokens


def engine_tokenizer(
    engine_url: str, *, model: str | None = None, api_key: str | None = None, timeout_s: float = 30.0
) -> Tokenize:
    """`POST /tokenize` of an engine, by no proxy of the environment. Raises Unavailable when it gives no tokens."""
    body = {"model": model} if model else {}
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    trusted = authorities(engine_url)
    http = httpx.Client(base_url=engine_url, headers=headers, timeout=timeout_s, verify=trusted, trust_env=False)

    def tokenize(text: str) -> list[int]:
        try:
            answer = http.post("/tokenize", json={**body, "prompt": text, "add_special_tokens": False})
            if not answer.is_success:
                raise ValueError(f"{answer.status_code} {answer.text[:200]}")
            return [int(token) for token in answer.json()["tokens"]]
        except (httpx.HTTPError, KeyError, ValueError, TypeError) as error:
            raise Unavailable(f"{engine_url}/tokenize gave no tokens: {unreached(error)}; is the engine up?") from error

    return tokenize
