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

TokenId = Annotated[int, Field(ge=0, lt=2**31)]

MOST_CHOICES = 16
"""Answers to one prompt."""

MOST_LOGPROBS = 20
"""Likeliest tokens told beside one."""

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
    "echo": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "suffix": ("",),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "spaces_between_special_tokens": (True,),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "truncate_prompt_tokens": (),
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
    continuous_usage_stats: bool = False


class GenerationRequest(BaseModel):
    """What both endpoints share. temperature below 0.00001 is greedy; top_k -1 or 0 is off."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    max_tokens: int | None = Field(default=None, ge=0)
    min_tokens: int = Field(default=0, ge=0)
    n: int = Field(default=1, ge=1, le=MOST_CHOICES)
    best_of: int | None = None
    temperature: Float = Field(default=1.0, ge=0)
    top_p: Float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1)
    min_p: Float = Field(default=0.0, ge=0, le=1)
    presence_penalty: Float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: Float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: Float = Field(default=1.0, gt=0)
    logit_bias: dict[TokenId, Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] = Field(default_factory=list)
    stop_token_ids: list[TokenId] = Field(default_factory=list)
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    add_special_tokens: bool | None = None
    priority: int = 0
    timeout_s: Float | None = Field(default=None, gt=0)
    cache_salt: str | None = Field(default=None, min_length=1)
    stream: bool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)

    @property
    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def tops(self) -> int | None:
        """How many of the likeliest tokens to tell beside each output token; None: no log probabilities at all."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises `BadRequest` for fields that do not go together."""
        if self.best_of is not None and self.best_of != self.n:
            raise BadRequest(
                f"best_of: {self.best_of} would choose among answers, which is not supported; leave it out",
                field="best_of",
            )


class CompletionRequest(GenerationRequest):
    """POST /v1/completions. One prompt or several: text or token ids."""

    prompt: str | list[TokenId] | list[str] | list[list[TokenId]]
    echo: bool = False
    logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)
    prompt_logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)

    @property
    def tops(self) -> int | None:
        return self.logprobs

    def check(self) -> None:
        super().check()
        if self.stream and self.prompt_logprobs is not None:
            raise BadRequest("prompt_logprobs: they come with whole answers only; leave out stream", field="stream")
        if self.max_tokens == 0 and not (self.echo or self.prompt_logprobs is not None):
            raise BadRequest("max_tokens: 0 is for echo and prompt_logprobs alone", field="max_tokens")


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
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=MOST_LOGPROBS)

    @property
    def tops(self) -> int | None:
        return self.top_logprobs if self.logprobs else None

    def check(self) -> None:
        super().check()
        if self.top_logprobs and not self.logprobs:
            raise BadRequest("top_logprobs: wants logprobs true beside it", field="top_logprobs")
        if self.max_tokens == 0:
            raise BadRequest("max_tokens: must be at least 1", field="max_tokens")


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
        asked = kind.model_validate(_without_neutral(kind, body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = _field(first["loc"])
        if first["type"] == "extra_forbidden":
            known = [*kind.model_fields, *NEUTRAL, *IGNORED]
            raise BadRequest(f"{field}: no such field, {nearest(field, known)}", field=field) from None
        raise BadRequest(f"{field}: {first['msg']}", field=field) from None
    if isinstance(asked, GenerationRequest):
        asked.check()
    return asked


def _without_neutral(kind: type[BaseModel], body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without fields that change nothing; null means the default."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        if name in kind.model_fields:
            if value is not None and not (name == "logprobs" and value is False):  # Off, for a field of numbers too.
                kept[name] = value
        elif not issubclass(kind, GenerationRequest) or name not in IGNORED | NEUTRAL.keys():
            kept[name] = value
        elif name in NEUTRAL and value is not None and value not in NEUTRAL[name]:
            raise BadRequest(f"{name}: {value!r} is not supported by this engine; leave the field out", field=name)
    return kept


def _field(loc: tuple[int | str, ...]) -> str:
    """The dotted place of an error, without the names of the union's branches that pydantic adds below a field."""
    return str(loc[0]) if loc else "body"
