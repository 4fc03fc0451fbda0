"""A request's sampling fields as the sampler takes them."""

import secrets
from dataclasses import replace

from agents.engine.request.params import SamplingParams, seed_of_choice
from agents.engine.server.openai_api import CompletionRequest, GenerationRequest
from controlplane.contract.errors import BadRequest

_GREEDY_BELOW = 1e-5
_SEED_BITS = 63


def sampling_params(
    asked: GenerationRequest, max_tokens: int, eos: frozenset[int], vocabulary: int
) -> list[SamplingParams]:
    """Those of each of the n answers: they differ in their seed alone. Raises `BadRequest` that names the field."""
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
    seed = asked.seed if asked.seed is not None else secrets.randbits(_SEED_BITS)
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
