"""Text to tokens and back, from a folder's tokenizer.json.

Guarantee: the pieces of a stream joined are the text of all its tokens, special tokens left out; a character whose
bytes come in several tokens is held back until it is whole; text from a stop string on is never given out.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from controlplane.contract.errors import BadRequest

TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"


class TextCodec:
    """A folder's tokenizer. Thread-safe."""

    def __init__(self, model_dir: Path) -> None:
        path = Path(model_dir) / TOKENIZER_FILE
        if not path.is_file():
            raise BadRequest(f"model folder {model_dir}: no {TOKENIZER_FILE}", field="model_dir")
        self._tokenizer: Any = Tokenizer.from_file(str(path))
        # Cutting or padding prompts silently is never wanted here, whatever the file says.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        settings_path = Path(model_dir) / SETTINGS_FILE
        self.settings: dict[str, Any] = json.loads(settings_path.read_text("utf-8")) if settings_path.is_file() else {}

    @property
    def vocabulary_size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def special_token(self, name: str) -> str | None:
        """The text of a named special token (bos_token, eos_token, ...) of the folder's settings."""
        value = self.settings.get(name)
        return value["content"] if isinstance(value, dict) else value

    def token_id(self, text: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(text)
        return found

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens))

    def stream(self, stop: Sequence[str] = ()) -> "TextStream":
        return TextStream(self._tokenizer, stop)


class TextStream:
    """The text of one output, piece by piece."""

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._decoder = DecodeStream(skip_special_tokens=True)
        self._stop = [text for text in stop if text]
        self._tokens: list[int] = []
        self._held = ""
        self._whole = ""  # All text decoded so far.
        self.stopped = False

    def push(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete. Sets `stopped` at a stop string and gives the text before it."""
        fresh = ""
        for token in tokens:
            self._tokens.append(token)
            fresh += self._decoder.step(self._tokenizer, token) or ""
        return self._release(fresh)

    def finish(self) -> str:
        """What is left at the end: held-back text, and broken characters as the tokenizer shows them."""
        if self.stopped:
            return ""
        whole = self._tokenizer.decode(self._tokens, skip_special_tokens=True)
        rest = whole[len(self._whole) :] if whole.startswith(self._whole) else ""
        given = self._release(rest)
        if not self.stopped:
            given, self._held = given + self._held, ""
        return given

    def _release(self, fresh: str) -> str:
        self._whole += fresh
        if not self._stop:
            return fresh
        text = self._held + fresh
        places = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        keep = max(_overlap(text, stop) for stop in self._stop)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` with which `stop` begins, short of all of it."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
