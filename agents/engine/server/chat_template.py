"""Messages to a prompt, by the folder's own Jinja template, in a sandbox: a model folder is data, not code."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.engine.server.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest

TEMPLATE_FILE = "chat_template.jinja"


class ChatTemplate:
    """Renders messages. A folder without a template serves completions only."""

    def __init__(self, model_dir: Path, codec: TextCodec) -> None:
        source = _source(Path(model_dir), codec.settings)
        self._tokens = {name: codec.special_token(name) or "" for name in ("bos_token", "eos_token", "pad_token")}
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        try:
            self._template = environment.from_string(source) if source is not None else None
        except TemplateError as error:
            raise BadRequest(
                f"model folder {model_dir}: its chat template is broken: {error}", field="model_dir"
            ) from error

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt that asks for the assistant's answer. Raises `BadRequest` (messages) when the template refuses."""
        if self._template is None:
            raise BadRequest("messages: this model has no chat template; use /v1/completions", field="messages")
        try:
            return self._template.render(messages=list(messages), add_generation_prompt=True, **self._tokens)
        except (TemplateError, TypeError, KeyError) as error:
            raise BadRequest(f"messages: the model's chat template refuses them: {error}", field="messages") from error


def _source(model_dir: Path, settings: Mapping[str, Any]) -> str | None:
    path = model_dir / TEMPLATE_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        return named.get("default")
    return template


def _to_json(value: Any, indent: int | None = None) -> str:
    """Plain JSON: Jinja's own filter escapes HTML, which no model was trained on."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise TemplateError(message)
