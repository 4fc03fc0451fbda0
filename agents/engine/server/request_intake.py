"""From a checked request to an exchange: prompts to tokens, limits, sampling parameters.

Guarantee: what is wrong with a request is told before the engine hears of it, and the error names the field.
"""

import asyncio
import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fastapi import Request as HttpRequest

from agents.engine.core.engine import Engine
from agents.engine.request.params import SEED_BITS, SamplingParams, seed_of_choice
from agents.engine.request.timing import RequestClock, monotonic
from agents.engine.scheduling.request import Request
from agents.engine.server.counted_refusals import Refusals
from agents.engine.server.exchange import Exchange
from agents.engine.server.forms import ChatForm, Form
from agents.engine.server.generation import Generation
from agents.engine.server.handover import Handover
from agents.engine.server.openai_api import ChatRequest, CompletionRequest, GenerationRequest, ModelNotFound
from agents.engine.server.request_edge import CLOCK, REQUEST_ID, TENANT_HEADER
from agents.engine.server.responses import ExchangeAnswer, StreamAnswer, WholeAnswer, Wishes
from agents.engine.text.chat_template import ChatTemplate
from agents.engine.text.text_stream import TextRules
from agents.engine.text.token_text import TokenText
from agents.engine.text.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest, DeadlineUnmet, Overloaded, Unavailable

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for completions; chat completions may use what is left of the context."""

MOST_OUTPUTS = 256
"""Answers to all prompts of one request."""
_GREEDY_BELOW = 1e-5


class Intake:
    """Holds what requests need: the tokenizer, the chat template, the way back from the engine's thread."""

    def __init__(self, engine: Engine) -> None:
        model_dir = Path(engine.options.model)
        self.engine = engine
        self.model_name = engine.options.model_name
        self.codec = TextCodec(model_dir)
        self.template = ChatTemplate(model_dir, self.codec)
        self.handover: Handover | None = None
        self.refusals = Refusals()
        self._token_text = TokenText(self.codec)
        self._eos = _eos_ids(engine, model_dir)

    def check_model(self, name: str | None) -> None:
        """Raises `ModelNotFound` for a name that is not the served one; none at all is fine."""
        if name is not None and name != self.model_name:
            raise ModelNotFound(
                f"model: {name!r} is not served here; this engine serves {self.model_name!r}", field="model"
            )

    def chat_tokens(self, messages: list[Any], add_special_tokens: bool = False) -> list[int]:
        return self.codec.encode(self.template.render([message.plain() for message in messages]), add_special_tokens)

    def completion(self, asked: CompletionRequest, request: HttpRequest) -> ExchangeAnswer:
        self._received(asked, request)
        prompts = self._prompts(asked)
        max_tokens = COMPLETION_MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
        wishes = Wishes(
            echo=asked.echo,
            output=max_tokens > 0,
            prompt_logprobs=asked.prompt_logprobs is not None,
            prompts=self._texts(asked, prompts) if asked.echo else (),
        )
        return self._answer(asked, prompts, max(1, max_tokens), wishes, request)

    def chat(self, asked: ChatRequest, request: HttpRequest) -> ExchangeAnswer:
        self._received(asked, request)
        prompt = self.chat_tokens(asked.messages, asked.add_special_tokens is True)
        steps = self.engine.steps
        room = min(steps.max_model_len, steps.pool.num_blocks * steps.pool.block_size) - len(prompt)
        wanted = asked.max_completion_tokens or asked.max_tokens or max(1, room)
        return self._answer(asked, [prompt], wanted, Wishes(), request)

    def _received(self, asked: GenerationRequest, request: HttpRequest) -> None:
        self.check_model(asked.model)
        clock: RequestClock = request.scope[CLOCK]
        clock.received = monotonic()
        clock.tokenize_started = monotonic()

    def _prompts(self, asked: CompletionRequest) -> list[list[int]]:
        prompt = asked.prompt
        several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
        prompts = cast("list[str | list[int]]", prompt if several else [prompt])
        if len(prompts) * asked.n > MOST_OUTPUTS:
            raise BadRequest(
                f"prompt: {len(prompts)} prompts with {asked.n} answers each are more than {MOST_OUTPUTS} answers",
                field="prompt",
                limit=MOST_OUTPUTS,
            )
        return [self._prompt_tokens(own, asked.add_special_tokens is not False) for own in prompts]

    def _prompt_tokens(self, prompt: str | list[int], add_special_tokens: bool) -> list[int]:
        if isinstance(prompt, str):
            return self.codec.encode(prompt, add_special_tokens)
        vocabulary = self.engine.steps.model_config.vocab_size
        if outside := [token for token in prompt if not 0 <= token < vocabulary]:
            raise BadRequest(f"prompt: token {outside[0]} is outside the vocabulary of {vocabulary}", field="prompt")
        return prompt

    def _texts(self, asked: CompletionRequest, prompts: list[list[int]]) -> tuple[str, ...]:
        """The prompts as text: as they came, or decoded."""
        given = asked.prompt if isinstance(asked.prompt, list) else [asked.prompt]
        if given and isinstance(given[0], str):
            return tuple(text for text in given if isinstance(text, str))
        return tuple(self.codec.decode(tokens, asked.skip_special_tokens) for tokens in prompts)

    def _answer(
        self, asked: GenerationRequest, prompts: list[list[int]], max_tokens: int, wishes: Wishes, request: HttpRequest
    ) -> ExchangeAnswer:
        engine, clock = self.engine, cast(RequestClock, request.scope[CLOCK])
        chat = isinstance(asked, ChatRequest)
        if not all(prompts):
            raise BadRequest("prompt: it has no tokens", field="messages" if chat else "prompt")
        params = _sampling_params(asked, max_tokens, self._eos, engine.steps.model_config.vocab_size)
        deadline = engine.deadline(asked.timeout_s, clock.arrived)
        try:
            for prompt in prompts:
                engine.check(len(prompt), max_tokens, priority=asked.priority, deadline=deadline)
        except (DeadlineUnmet, Overloaded) as failure:
            self.refusals.turned_away(failure, len(prompts) * asked.n, engine)
            raise
        if self.handover is None:
            self.handover = Handover(asyncio.get_running_loop())
        request_id: str = request.scope[REQUEST_ID]
        rules = TextRules(
            asked.stop_strings, asked.include_stop_str_in_output, asked.skip_special_tokens, asked.min_tokens
        )
        generations: list[Generation] = []
        for number, prompt in enumerate(prompts):
            for own in params:
                place = len(generations)
                made = Request(
                    f"{request_id}-{place}" if place else request_id,
                    prompt,
                    own,
                    request.headers.get(TENANT_HEADER),
                    priority=asked.priority,
                    deadline=deadline,
                    salt=asked.cache_salt,
                )
                own_clock = replace(clock) if place else clock
                generations.append(Generation(engine, made, self.codec.stream(rules), own_clock, number))
        exchange = Exchange(engine, self.handover, generations, asked.n)
        form = (ChatForm if chat else Form)(
            f"{'chatcmpl' if chat else 'cmpl'}-{request_id}",
            self.model_name,
            self._token_text,
            asked.tops,
            asked.stream_options.include_usage,
            asked.stream_options.continuous_usage_stats,
        )
        answer = (StreamAnswer if asked.stream else WholeAnswer)(exchange, form, wishes, self.refusals)
        now = monotonic()
        for generation in generations:
            generation.clock.tokenized = now
        try:
            exchange.start()
        except Unavailable as failure:
            self.refusals.turned_away(failure, len(generations), engine)
            raise
        return answer


def _sampling_params(
    asked: GenerationRequest, max_tokens: int, eos: frozenset[int], vocabulary: int
) -> list[SamplingParams]:
    """The request's sampling fields as the sampler takes them, one for each answer: only their seeds differ.

    Raises `BadRequest` that names the field.
    """
    for name, tokens in (("stop_token_ids", asked.stop_token_ids), ("logit_bias", asked.logit_bias)):
        if outside := [token for token in tokens if token >= vocabulary]:
            raise BadRequest(f"{name}: token {outside[0]} is outside the vocabulary of {vocabulary}", field=name)
    if asked.min_tokens > max_tokens:
        raise BadRequest(f"min_tokens: {asked.min_tokens} is more than the {max_tokens} allowed", field="min_tokens")
    prompt_logprobs = None
    if isinstance(asked, CompletionRequest):
        prompt_logprobs = asked.prompt_logprobs
        if asked.echo and asked.logprobs is not None:
            prompt_logprobs = max(asked.logprobs, prompt_logprobs or 0)
    seed = asked.seed if asked.seed is not None else secrets.randbits(SEED_BITS)
    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=asked.temperature if asked.temperature >= _GREEDY_BELOW else 0.0,
        top_p=asked.top_p,
        top_k=max(0, asked.top_k),
        min_p=asked.min_p,
        seed=seed,
        stop_token_ids=frozenset(asked.stop_token_ids) | (frozenset() if asked.ignore_eos else eos),
        presence_penalty=asked.presence_penalty,
        frequency_penalty=asked.frequency_penalty,
        repetition_penalty=asked.repetition_penalty,
        logit_bias=tuple(sorted(asked.logit_bias.items())),
        min_tokens=asked.min_tokens,
        logprobs=asked.tops,
        prompt_logprobs=prompt_logprobs,
    )
    # The prompt's log probabilities are told once; its other answers may take the prompt from the cache.
    further = replace(params, prompt_logprobs=None)
    return [params, *(replace(further, seed=seed_of_choice(seed, choice)) for choice in range(1, asked.n))]


def _eos_ids(engine: Engine, model_dir: Path) -> frozenset[int]:
    """End tokens of config.json and, where there is one, generation_config.json; those that the model can give."""
    found = set(engine.steps.model_config.eos_token_ids)
    path = model_dir / "generation_config.json"
    if path.is_file():
        value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        found |= set(value) if isinstance(value, list) else set() if value is None else {value}
    return frozenset(token for token in found if token < engine.steps.model_config.vocab_size)
