"""The text that is measured on: Python's own library, which lies on every machine that can run this.

Guarantees: the same Python gives the same pieces for the same seed; `Pieces.take` never gives one twice, so that no
prefix cache can help where none is meant to.
"""

import hashlib
import json
import random
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.engine_rivals.protocol import ROOT

_CODE_BYTES = 1_500_000
_SKIPPED = frozenset(
    {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "encodings"}
)
_HELD_OUT_PERCENT = 3


@dataclass
class Pieces:
    """Stretches of one long token list, each beginning somewhere else."""

    tokens: list[int]
    prefix: list[int]
    """What every prompt of this model begins with (a BOS token, or nothing)."""
    random: random.Random
    used: set[int] = field(default_factory=set)

    def take(self, length: int) -> list[int]:
        """A prompt of exactly `length` tokens, the prefix included."""
        body = length - len(self.prefix)
        while (start := self.random.randrange(len(self.tokens) - body)) in self.used:
            pass
        self.used.add(start)
        return self.prefix + self.tokens[start : start + body]

    def take_many(self, count: int, length: int) -> list[list[int]]:
        return [self.take(length) for _ in range(count)]


class Texts:
    """The token lists of one model."""

    def __init__(self, model_dir: Path, seed: int) -> None:
        self.tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
        # Gemma's text is garbage without its BOS token; the bundled model was trained without one.
        bos = config.get("bos_token_id") if str(config.get("model_type", "")).startswith("gemma") else None
        self.prefix: list[int] = [] if bos is None else [bos]
        self._seed = seed
        self._code = self.encode(_library_code())

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def code(self, purpose: str) -> Pieces:
        """Library code, in an order of its own for each purpose."""
        return Pieces(self._code, self.prefix, random.Random(f"{self._seed}:{purpose}"))

    def held_out(self, tokens: int) -> list[tuple[str, list[int]]]:
        """(name, prompt) of texts to judge quality on: code that the bundled model was not trained on, and prose."""
        code = next(text for path in _library_files() if _is_held_out(path) and len(text := _read(path)) > 8 * tokens)
        half = tokens // 2
        prose = [token for name in ("README.md", "LICENSE") for token in self.encode(_read(ROOT / name))[:half]]
        return [("code", self.prefix + self.encode(code)[:tokens]), ("prose", self.prefix + prose)]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _library_files() -> list[Path]:
    return [path for path in sorted(_library().rglob("*.py")) if not _SKIPPED & set(path.relative_to(_library()).parts)]


def _library_code() -> str:
    parts: list[str] = []
    size = 0
    for path in _library_files():
        if size > _CODE_BYTES:
            break
        parts.append(_read(path))
        size += len(parts[-1])
    return "\n".join(parts)


def _is_held_out(path: Path) -> bool:
    """As the bundled model's training decides it (agents/models/training/training_text.py)."""
    name = path.relative_to(_library()).as_posix()
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100 < _HELD_OUT_PERCENT
