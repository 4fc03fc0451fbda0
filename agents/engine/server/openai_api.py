"""What the OpenAI-compatible endpoints accept and answer.

Guarantee: a field is honoured, or has a value that changes nothing, or is refused with a 400 that names it; nothing
that would change the output is dropped silently.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controlplane.contract.errors import BadRequest, NotFound, nearest

Request = TypeVar("Request", bound=BaseModel)
Float = Annotated[float, Field(allow_inf_nan=False)]

IGNORED = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "parallel_tool_calls",
    }
)
"""Fields that never change the text."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "min_p": (0,),
    "use_beam_search": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "add_generation_prompt": (True,),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields this engine does not honour, with the values (besides null) at which they change nothing."""


class ModelNotFound(NotFound):
    """404: the request names a model that is not served here."""

    code = "model_not_found"


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class GenerationRequest(BaseModel):
    """What both endpoints share. temperature below 0.00001 is greedy; top_k -1 or 0 is off."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: Float = Field(default=1.0, ge=0)
    top_p: Float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1)
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] = Field(default_factory=list)
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)

    @property
    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop


class CompletionRequest(GenerationRequest):
    """POST /v1/completions. One prompt: text or token ids."""

    prompt: str | list[int] | list[str] | list[list[int]]


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """role and content; further keys go to the template as they are."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[TextPart] | None = None

    def plain(self) -> dict[str, Any]:
        """For the template: text parts joined."""
        content = self.content
        text = "".join(part.text for part in content) if isinstance(content, list) else content or ""
        return {**self.model_dump(), "content": text}


class ChatRequest(GenerationRequest):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: int | None = Field(default=None, ge=1)


class TokenizeRequest(BaseModel):
    """POST /tokenize: a prompt, or messages through the chat template."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None


class DetokenizeRequest(BaseModel):
    """POST /detokenize."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


def parse(kind: type[Request], body: Any) -> Request:
    """Check a request body. Raises `BadRequest` that names the first wrong field."""
    if not isinstance(body, Mapping):
        raise BadRequest("the body must be a JSON object", field="body")
    try:
        return kind.model_validate(_without_neutral(kind, body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = _field(first["loc"])
        if first["type"] == "extra_forbidden":
            known = [*kind.model_fields, *NEUTRAL, *IGNORED]
            raise BadRequest(f"{field}: no such field, {nearest(field, known)}", field=field) from None
        raise BadRequest(f"{field}: {first['msg']}", field=field) from None


def _without_neutral(kind: type[BaseModel], body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without fields that change nothing; null means the default."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        if name in kind.model_fields:
            if value is not None:
                kept[name] = value
        elif not issubclass(kind, GenerationRequest) or name not in IGNORED | NEUTRAL.keys():
            kept[name] = value
        elif name in NEUTRAL and value is not None and value not in NEUTRAL[name]:
            raise BadRequest(f"{name}: {value!r} is not supported by this engine; leave the field out", field=name)
    return kept


def _field(loc: tuple[int | str, ...]) -> str:
    """The dotted place of an error, without the names of the union's branches that pydantic adds below a field."""
    return str(loc[0]) if loc else "body"
