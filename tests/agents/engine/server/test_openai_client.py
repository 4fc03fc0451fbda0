"""OpenAI's own Python client against a served engine, unchanged."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from agents.engine.core.engine import Engine
from controlplane.contract.knobs import parse_config
from tests.agents.engine.serving import eventually, serving

PROMPT = "the cat sat on the mat and"
MESSAGES = [{"role": "user", "content": "the dog?"}]
WHOLE = {"ignore_eos": True}


@pytest.fixture(scope="module")
def served(model_dir: Path) -> Iterator[tuple[Engine, str]]:
    with serving(model_dir, max_waiting=64) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: tuple[Engine, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served[1] + "/v1", api_key="none", max_retries=0) as made:
        yield made


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_completion_with_usage_and_logprobs(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="tiny", prompt=PROMPT, max_tokens=6, temperature=0, logprobs=3, extra_body=WHOLE
    )
    choice = answer.choices[0]
    assert (choice.finish_reason, answer.usage and answer.usage.completion_tokens) == ("length", 6)
    told = choice.logprobs
    assert told is not None and told.tokens is not None and told.token_logprobs is not None
    assert told.top_logprobs is not None and told.text_offset is not None
    assert "".join(told.tokens) == choice.text and len(told.tokens) == 6
    assert told.text_offset[0] == 0 and told.text_offset[2] == len(told.tokens[0] + told.tokens[1])
    for token, logprob, top in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
        assert top[token] == logprob == max(top.values()), "greedy takes the likeliest"
        assert 1 <= len(top) <= 4 and sum(math.exp(value) for value in top.values()) <= 1.0 + 1e-6


def test_echo_tells_the_prompt_and_its_logprobs(client: openai.OpenAI) -> None:
    plain = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=3, temperature=0, extra_body=WHOLE)
    for tokens in (3, 0):
        answer = client.completions.create(
            model="tiny", prompt=PROMPT, max_tokens=tokens, temperature=0, echo=True, logprobs=1, extra_body=WHOLE
        )
        choice, usage = answer.choices[0], answer.usage
        assert choice.text == PROMPT + (plain.choices[0].text if tokens else "")
        told = choice.logprobs
        assert usage is not None and usage.completion_tokens == tokens
        assert told is not None and told.tokens is not None and told.token_logprobs is not None
        assert "".join(told.tokens) == choice.text
        assert len(told.tokens) == usage.prompt_tokens + tokens
        assert told.token_logprobs[0] is None and all(value <= 0 for value in told.token_logprobs[1:])


def test_several_prompts_and_answers_come_in_order(client: openai.OpenAI) -> None:
    prompts = ["the cat", "the hen on", "a dog"]
    together = client.completions.create(
        model="tiny", prompt=prompts, n=2, max_tokens=5, temperature=1.0, seed=7, extra_body=WHOLE
    )
    assert [choice.index for choice in together.choices] == list(range(6))
    for place, prompt in enumerate(prompts):
        alone = client.completions.create(
            model="tiny", prompt=prompt, max_tokens=5, temperature=1.0, seed=7, extra_body=WHOLE
        )
        assert alone.choices[0].text == together.choices[2 * place].text, "the first has the request's own seed"
        assert together.choices[2 * place].text != together.choices[2 * place + 1].text
    assert together.usage is not None and together.usage.completion_tokens == 30


def test_further_answers_take_the_prompt_from_the_cache(served: tuple[Engine, str], client: openai.OpenAI) -> None:
    engine = served[0]
    before = engine.steps.scheduler.cache.stats()
    prompt = [5, 9, 13] * 40
    client.completions.create(model="tiny", prompt=prompt, n=4, max_tokens=2, temperature=1.0, extra_body=WHOLE)
    after = engine.steps.scheduler.cache.stats()
    assert after.queried_tokens - before.queried_tokens == 4 * 120
    assert after.hit_tokens - before.hit_tokens == 3 * 112, "all full blocks short of the last token"


def test_streams_of_several_answers_equal_the_whole(client: openai.OpenAI) -> None:
    fields = {"model": "tiny", "prompt": PROMPT, "n": 3, "max_tokens": 8, "temperature": 1.0, "seed": 3}
    whole = client.completions.create(**fields, logprobs=0, extra_body=WHOLE)  # type: ignore[call-overload]
    texts, tokens, reasons = [""] * 3, [0] * 3, [""] * 3
    usage = None
    stream = client.completions.create(  # type: ignore[call-overload]
        **fields, logprobs=0, stream=True, stream_options={"include_usage": True}, extra_body=WHOLE
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += len(choice.logprobs.tokens)
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.text for choice in whole.choices]
    assert tokens == [8, 8, 8] and reasons == ["length"] * 3
    assert usage == whole.usage and usage.completion_tokens == 24


def test_chat_whole_streamed_and_with_logprobs(client: openai.OpenAI) -> None:
    fields = {"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 6, "temperature": 0}
    whole = client.chat.completions.create(  # type: ignore[call-overload]
        **fields, logprobs=True, top_logprobs=2, extra_body=WHOLE
    )
    content = whole.choices[0].logprobs.content
    assert whole.choices[0].message.role == "assistant" and len(content) == 6
    spelt = b"".join(bytes(entry.bytes) for entry in content)
    assert spelt.decode(errors="replace") == whole.choices[0].message.content
    assert all(entry.top_logprobs[0].logprob == entry.logprob and len(entry.top_logprobs) == 2 for entry in content)
    stream = client.chat.completions.create(  # type: ignore[call-overload]
        **fields, stream=True, stream_options={"include_usage": True}, extra_body=WHOLE
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 6


def test_stop_strings_and_what_belongs_to_them(client: openai.OpenAI) -> None:
    def ask(**extra: object) -> tuple[str, str | None, int]:
        answer = client.completions.create(
            model="tiny", prompt=PROMPT, max_tokens=40, temperature=0, extra_body={**WHOLE, **extra}
        )
        assert answer.usage is not None
        return answer.choices[0].text, answer.choices[0].finish_reason, answer.usage.completion_tokens

    text, _, _ = ask()
    stop = text[10:13]
    cut = text.index(stop)
    shorter, reason, tokens = ask(stop=[stop])
    assert (shorter, reason) == (text[:cut], "stop") and tokens < 40
    assert ask(stop=[stop], include_stop_str_in_output=True) == (text[:cut] + stop, "stop", tokens)
    assert len(ask(stop=[stop], min_tokens=39)[0]) > cut, "a stop string does not count before min_tokens"


def test_errors_are_the_clients_own_kinds(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model="tiny", prompt="a", temperature=-1)
    assert (bad.value.param, bad.value.type, bad.value.code) == ("temperature", "invalid_request_error", "bad_request")
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="other", messages=MESSAGES)  # type: ignore[arg-type]
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="tiny",
            messages=MESSAGES,  # type: ignore[arg-type]
            tools=[{"type": "function", "function": {"name": "f"}}],
        )
    assert refused.value.param == "tools"


@pytest.mark.slow
def test_a_full_queue_is_a_rate_limit_and_a_missed_deadline_a_503(model_dir: Path) -> None:
    with serving(model_dir, max_waiting=0, config=parse_config({"max_num_seqs": 1})) as (engine, address):
        with openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.RateLimitError) as full:
                client.completions.create(model="tiny", prompt="a")
            assert full.value.type == "rate_limit_error" and full.value.response.headers["retry-after"] == "1"
            assert full.value.body["detail"]["degraded"]["reason"] == "queue_full"  # type: ignore[index]
    with serving(model_dir) as (engine, address):
        with openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.InternalServerError) as late:
                client.completions.create(model="tiny", prompt="a", extra_body={"timeout_s": 1e-7})
            assert late.value.status_code == 503 and late.value.param == "timeout_s"
            cut = client.completions.create(
                model="tiny", prompt="a", max_tokens=500, temperature=0, extra_body={**WHOLE, "timeout_s": 0.02}
            )
            assert cut.choices[0].stop_reason in ("timeout", None)  # type: ignore[attr-defined]
        eventually(lambda: engine.steps.pool.num_held == 0)


def test_the_async_client_and_its_leaving(served: tuple[Engine, str]) -> None:
    engine, address = served

    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=address + "/v1", api_key="none", max_retries=0) as client:
            stream = await client.completions.create(
                model="tiny", prompt=PROMPT, max_tokens=400, n=2, stream=True, extra_body=WHOLE
            )
            async for _ in stream:
                break
            await stream.close()
            answers = await asyncio.gather(
                *(
                    client.completions.create(
                        model="tiny", prompt=PROMPT, max_tokens=5, temperature=0, extra_body=WHOLE
                    )
                    for _ in range(5)
                )
            )
        return [answer.choices[0].text for answer in answers]

    assert len(set(asyncio.run(ask()))) == 1
    eventually(lambda: engine.steps.pool.num_held == 0 and not engine.steps.scheduler.running)
