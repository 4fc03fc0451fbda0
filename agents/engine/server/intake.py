"""From a checked request to a generation: prompt to tokens, limits, sampling parameters.

Guarantee: what is wrong with a request is told before the engine hears of it, and the error names the field.
"""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any, cast

from fastapi import Request

from agents.engine.engine import Engine
from agents.engine.observation.timing import RequestClock, monotonic
from agents.engine.sampling.params import SamplingParams
from agents.engine.scheduling.sequence import Sequence
from agents.engine.server.answers import Form, GenerationAnswer, StreamAnswer, WholeAnswer
from agents.engine.server.chat_template import ChatTemplate
from agents.engine.server.generation import Generation, Handover
from agents.engine.server.openai_api import ChatRequest, CompletionRequest, GenerationRequest, ModelNotFound
from agents.engine.server.request_edge import CLOCK, REQUEST_ID, TENANT_HEADER
from agents.engine.server.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for completions; chat completions may use what is left of the context."""

_GREEDY_BELOW = 1e-5


class Intake:
    """Holds what requests need: the tokenizer, the chat template, the way back from the engine's thread."""

    def __init__(self, engine: Engine) -> None:
        model_dir = Path(engine.options.model_dir)
        self.engine = engine
        self.model_name = engine.options.model_name
        self.codec = TextCodec(model_dir)
        self.template = ChatTemplate(model_dir, self.codec)
        self._eos = _eos_ids(engine, model_dir)
        self._handover: Handover | None = None

    def check_model(self, name: str | None) -> None:
        """Raises `ModelNotFound` for a name that is not the served one; none at all is fine."""
        if name is not None and name != self.model_name:
            raise ModelNotFound(
                f"model: {name!r} is not served here; this engine serves {self.model_name!r}", field="model"
            )

    def chat_tokens(self, messages: list[Any]) -> list[int]:
        return self.codec.encode(
            self.template.render([message.plain() for message in messages]), add_special_tokens=False
        )

    def completion(self, asked: CompletionRequest, request: Request) -> GenerationAnswer:
        self._received(asked, request)
        prompt = self._prompt_tokens(asked.prompt)
        return self._answer(asked, prompt, asked.max_tokens or COMPLETION_MAX_TOKENS, request, chat=False)

    def chat(self, asked: ChatRequest, request: Request) -> GenerationAnswer:
        self._received(asked, request)
        prompt = self.chat_tokens(asked.messages)
        steps = self.engine.steps
        room = min(steps.max_model_len, steps.pool.num_blocks * steps.pool.block_size) - len(prompt)
        wanted = asked.max_completion_tokens or asked.max_tokens or max(1, room)
        return self._answer(asked, prompt, wanted, request, chat=True)

    def _received(self, asked: GenerationRequest, request: Request) -> None:
        self.check_model(asked.model)
        clock: RequestClock = request.scope[CLOCK]
        clock.received = monotonic()
        clock.tokenize_started = monotonic()

    def _prompt_tokens(self, prompt: str | list[int] | list[str] | list[list[int]]) -> list[int]:
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise BadRequest("prompt: one prompt per request; send the others beside it", field="prompt")
            return self._prompt_tokens(prompt[0])
        if isinstance(prompt, str):
            return self.codec.encode(prompt)
        vocabulary = self.engine.steps.model_config.vocab_size
        tokens = cast("list[int]", prompt)
        if outside := [token for token in tokens if not 0 <= token < vocabulary]:
            raise BadRequest(f"prompt: token {outside[0]} is outside the vocabulary of {vocabulary}", field="prompt")
        return tokens

    def _answer(
        self, asked: GenerationRequest, prompt: list[int], max_tokens: int, request: Request, *, chat: bool
    ) -> GenerationAnswer:
        if not prompt:
            raise BadRequest("prompt: it has no tokens", field="messages" if chat else "prompt")
        self.engine.check(len(prompt), max_tokens)
        params = SamplingParams(
            max_tokens=max_tokens,
            temperature=asked.temperature if asked.temperature >= _GREEDY_BELOW else 0.0,
            top_p=asked.top_p,
            top_k=max(0, asked.top_k),
            seed=asked.seed if asked.seed is not None else secrets.randbits(63),
            stop_token_ids=frozenset(asked.stop_token_ids) | (frozenset() if asked.ignore_eos else self._eos),
        )
        request_id: str = request.scope[REQUEST_ID]
        sequence = Sequence(request_id, prompt, params, request.headers.get(TENANT_HEADER))
        if self._handover is None:
            self._handover = Handover(asyncio.get_running_loop())
        text = self.codec.stream(asked.stop_strings)
        generation = Generation(self.engine, self._handover, sequence, text, request.scope[CLOCK])
        form = Form(
            f"{'chatcmpl' if chat else 'cmpl'}-{request_id}", self.model_name, chat, asked.stream_options.include_usage
        )
        answer = (StreamAnswer if asked.stream else WholeAnswer)(generation, form)
        generation.clock.tokenized = monotonic()
        generation.start()
        return answer


def _eos_ids(engine: Engine, model_dir: Path) -> frozenset[int]:
    """End tokens of config.json and, where there is one, generation_config.json."""
    found = set(engine.steps.model_config.eos_token_ids)
    path = model_dir / "generation_config.json"
    if path.is_file():
        value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        found |= set(value) if isinstance(value, list) else set() if value is None else {value}
    return frozenset(found)
