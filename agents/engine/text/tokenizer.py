"""Text to tokens and back, from a folder's tokenizer.json. Prompts are never cut or padded."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from agents.engine.text.text_stream import TextRules, TextStream
from controlplane.contract.errors import BadRequest

TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON object's content, empty where there is no such file. Raises `BadRequest` that names a broken file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: not JSON ({error})", field=path.name) from error
    if not isinstance(content, dict):
        raise BadRequest(f"{path}: holds no JSON object", field=path.name)
    return content


class TextCodec:
    """A folder's tokenizer. Thread-safe."""

    def __init__(self, model_dir: Path) -> None:
        path = Path(model_dir) / TOKENIZER_FILE
        if not path.is_file():
            raise BadRequest(
                f"model folder {model_dir}: no {TOKENIZER_FILE}; save the tokenizer with transformers to have one",
                field="model",
            )
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # The library raises nothing more specific.
            raise BadRequest(f"{path}: no tokenizer that can be read ({error})", field=TOKENIZER_FILE) from error
        # Cutting or padding prompts silently is never wanted here, whatever the file says.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.settings = {
            **read_settings(Path(model_dir) / SPECIAL_TOKENS_FILE),
            **read_settings(Path(model_dir) / SETTINGS_FILE),
        }
        self._add_tokens(self.settings.get("added_tokens_decoder") or {})
        if "add_bos_token" in self.settings or "add_eos_token" in self.settings:
            self._frame_prompts()

    @property
    def vocabulary_size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def special_token(self, name: str) -> str | None:
        """The text of a named special token (bos_token, eos_token, ...) of the folder's settings."""
        value = self.settings.get(name)
        return value["content"] if isinstance(value, dict) else value

    def special_tokens(self) -> dict[str, str]:
        """The texts of those that the folder names, by name."""
        found = {name: self.special_token(name) for name in SPECIAL_TOKEN_NAMES}
        return {name: text for name, text in found.items() if text is not None}

    def token_id(self, text: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(text)
        return found

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens))

    def piece(self, token: int) -> str | None:
        """A token as the vocabulary spells it; None: no such token."""
        found: str | None = self._tokenizer.id_to_token(token)
        return found

    def _add_tokens(self, declared: Mapping[str, Any]) -> None:
        """Tokens that the settings name by id and the tokenizer's own file lacks, as transformers adds them."""
        missing = sorted(
            (int(token), entry) for token, entry in declared.items() if self.token_id(entry["content"]) is None
        )
        for token, entry in missing:
            switches = {
                name: entry[name] for name in ("lstrip", "rstrip", "single_word", "normalized") if name in entry
            }
            special = bool(entry.get("special", False))
            self._tokenizer.add_tokens([AddedToken(entry["content"], special=special, **switches)])
            if self.token_id(entry["content"]) != token:
                raise BadRequest(
                    f"{SETTINGS_FILE}: {entry['content']!r} shall be token {token}, but {TOKENIZER_FILE} gives it "
                    f"{self.token_id(entry['content'])}",
                    field=SETTINGS_FILE,
                )

    def _frame_prompts(self) -> None:
        """Settings that say which tokens frame a prompt override the tokenizer's own file, as in transformers."""
        before, after = (
            [text] if self.settings.get(f"add_{name}") and (text := self.special_token(name)) is not None else []
            for name in ("bos_token", "eos_token")
        )
        framing = [(text, token) for text in {*before, *after} if (token := self.token_id(text)) is not None]
        self._tokenizer.post_processor = TemplateProcessing(
            single=[*before, "$A", *after], pair=[*before, "$A", "$B:1", *after], special_tokens=framing
        )

    def stream(self, rules: TextRules | None = None) -> TextStream:
        return TextStream(self._tokenizer, rules or TextRules())
