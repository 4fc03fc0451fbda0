"""Messages to a prompt, by the folder's own Jinja template, in a sandbox: a model folder is data, not code.

What a template may use is what transformers' `apply_chat_template` gives it: the messages, the special tokens by their
names, `add_generation_prompt`, `raise_exception`, `strftime_now`, a `tojson` that escapes no HTML, and loop controls.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.engine.text.tokenizer import TextCodec, read_settings
from controlplane.contract.errors import BadRequest

TEMPLATE_FILE = "chat_template.jinja"
OLDER_TEMPLATE_FILE = "chat_template.json"

_REFUSALS = (TemplateError, TypeError, KeyError, ValueError, AttributeError, ArithmeticError, RecursionError)


class ChatTemplate:
    """Renders messages. A folder without a template serves completions only."""

    def __init__(self, model_dir: Path, codec: TextCodec) -> None:
        source = _source(Path(model_dir), codec.settings)
        self._tokens = codec.special_tokens()
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationBlock]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _now
        try:
            self._template = environment.from_string(source) if source is not None else None
        except TemplateError as error:
            raise BadRequest(
                f"model folder {model_dir}: its chat template is broken: {error}", field="model"
            ) from error

    def render(self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any] | None = None) -> str:
        """The prompt that asks for the assistant's answer. variables: further names for the template, such as Qwen3's
        enable_thinking. Raises `BadRequest` (messages) when the template refuses."""
        if self._template is None:
            raise BadRequest("messages: this model has no chat template; use /v1/completions", field="messages")
        # A client that sends a key as null means that it is not there, which is what templates ask for.
        given = [{name: value for name, value in message.items() if value is not None} for message in messages]
        values = {**self._tokens, "tools": None, "documents": None, **(variables or {})}
        try:
            return self._template.render({**values, "messages": given, "add_generation_prompt": True})
        except _REFUSALS as error:
            raise BadRequest(f"messages: the model's chat template refuses them: {error}", field="messages") from error


class _GenerationBlock(Extension):
    """`{% generation %} ... {% endgeneration %}` marks what a model was trained to say; here it is its content."""

    tags = {"generation"}  # noqa: RUF012 - an instance variable for mypy, as Jinja declares it.

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _source(model_dir: Path, settings: Mapping[str, Any]) -> str | None:
    """The template of its own file, of the older file, or of the tokenizer's settings: one, or several by name."""
    path = model_dir / TEMPLATE_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = read_settings(model_dir / OLDER_TEMPLATE_FILE).get("chat_template") or settings.get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}
    if isinstance(template, dict):
        if "default" not in template:
            names = ", ".join(template)
            raise BadRequest(
                f"model folder {model_dir}: its chat templates are {names}, none is named default", field="model"
            )
        return str(template["default"])
    return template


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes HTML, which no model was trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    """The local time, as templates put today's date into a system prompt."""
    return datetime.now().strftime(form)
