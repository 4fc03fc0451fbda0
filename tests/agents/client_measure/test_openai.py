"""The openai library as it is, against a real engine: sync and async, chat and completions, streamed and not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import openai
import pytest

from agents.client_measure import ClientRecord, Ending, Recorder, join, wrap_openai
from tests.agents.client_measure.served_engine import PROMPT, ServedEngine
from tests.agents.client_measure.tls_proxy import Authority, Delays, tls_proxy

TOKENS = 8
MESSAGES: Any = [{"role": "user", "content": "write a function that adds"}]
WHOLE = {"ignore_eos": True}
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}
TEXT: dict[str, Any] = {"model": "tiny", "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0}
USAGE: Any = {"include_usage": True}


@pytest.fixture
def client(engine: ServedEngine, recorder: Recorder) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as made:
        assert wrap_openai(made, recorder) is made
        yield made


def only(recorder: Recorder) -> ClientRecord:
    (record,) = recorder.take_records()
    return record


def check_stream(record: ClientRecord, operation: str, pieces: int, engine: ServedEngine) -> None:
    assert (record.ending, record.finish_reason, record.operation) == (Ending.COMPLETE, "length", operation)
    assert (record.model, record.status, record.output_tokens) == ("tiny", 200, TOKENS)
    assert record.pieces == pieces > 1
    assert record.ttft_s is not None and record.tpot_s is not None and record.first_byte_s is not None
    assert 0.0 < record.first_byte_s <= record.ttft_s <= record.e2e_s
    assert record.tpot_s == pytest.approx((record.e2e_s - record.ttft_s) / (TOKENS - 1))
    (found,) = join([record], engine.records(record.request_id)).matched
    assert found.server_e2e_s < record.e2e_s - (record.connect_s or 0.0) + 0.1


def check_whole(record: ClientRecord, operation: str, engine: ServedEngine) -> None:
    assert (record.ending, record.finish_reason, record.operation) == (Ending.COMPLETE, "length", operation)
    assert (record.output_tokens, record.ttft_s, record.pieces) == (TOKENS, None, 0)
    assert len(join([record], engine.records(record.request_id)).matched) == 1


def test_chat_and_completions(client: openai.OpenAI, recorder: Recorder, engine: ServedEngine) -> None:
    whole = client.chat.completions.create(**CHAT, extra_body=WHOLE)
    check_whole(only(recorder), "chat", engine)
    stream = client.chat.completions.create(**CHAT, stream=True, stream_options=USAGE, extra_body=WHOLE)
    texts = [chunk.choices[0].delta.content for chunk in stream if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(texts) == whole.choices[0].message.content
    check_stream(only(recorder), "chat", len(texts), engine)

    told = client.completions.create(**TEXT, extra_body=WHOLE)
    check_whole(only(recorder), "text_completion", engine)
    events = client.completions.create(**TEXT, stream=True, stream_options=USAGE, extra_body=WHOLE)
    texts = [chunk.choices[0].text for chunk in events if chunk.choices and chunk.choices[0].text]
    assert "".join(texts) == told.choices[0].text
    check_stream(only(recorder), "text_completion", len(texts), engine)


def test_chat_and_completions_async(recorder: Recorder, engine: ServedEngine) -> None:
    async def run() -> tuple[list[Any], list[Any]]:
        async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client:
            wrap_openai(client, recorder)
            await client.chat.completions.create(**CHAT, extra_body=WHOLE)
            await client.completions.create(**TEXT, extra_body=WHOLE)
            chat = await client.chat.completions.create(**CHAT, stream=True, stream_options=USAGE, extra_body=WHOLE)
            chats = [chunk async for chunk in chat]
            text = await client.completions.create(**TEXT, stream=True, stream_options=USAGE, extra_body=WHOLE)
            return chats, [chunk async for chunk in text]

    chats, texts = asyncio.run(run())
    whole_chat, whole_text, chat, text = recorder.take_records()
    check_whole(whole_chat, "chat", engine)
    check_whole(whole_text, "text_completion", engine)
    said = [chunk for chunk in chats if chunk.choices and chunk.choices[0].delta.content]
    check_stream(chat, "chat", len(said), engine)
    check_stream(text, "text_completion", sum(bool(chunk.choices and chunk.choices[0].text) for chunk in texts), engine)
    assert whole_chat.reused is False and text.reused is True


def test_an_id_of_the_callers_is_the_servers_too(
    client: openai.OpenAI, recorder: Recorder, engine: ServedEngine
) -> None:
    answer = client.completions.create(**TEXT, extra_body=WHOLE, extra_headers={"X-Request-Id": "order-66"})
    assert answer.id == "cmpl-order-66" and answer._request_id == "order-66"
    assert only(recorder).request_id == "order-66"
    assert [server.request_id for server in engine.records("order-66")] == ["order-66"]


def test_leaving_a_stream_is_a_cancellation(client: openai.OpenAI, recorder: Recorder) -> None:
    with client.completions.create(**{**TEXT, "max_tokens": 200}, stream=True, extra_body=WHOLE) as stream:
        next(iter(stream))
    record = only(recorder)
    assert (record.ending, record.finish_reason) == (Ending.CANCELLED, "") and record.ttft_s is not None


def test_a_cancelled_task_leaves_a_record(recorder: Recorder, engine: ServedEngine) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client:
            wrap_openai(client, recorder)
            begun = asyncio.Event()

            async def read() -> None:
                async for _ in await client.completions.create(
                    **{**TEXT, "max_tokens": 400}, stream=True, extra_body=WHOLE
                ):
                    begun.set()

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert only(recorder).ending is Ending.CANCELLED


def test_an_error_is_the_librarys_own_and_is_recorded(client: openai.OpenAI, recorder: Recorder) -> None:
    with pytest.raises(openai.BadRequestError):
        client.completions.create(**{**TEXT, "temperature": -1})
    record = only(recorder)
    assert (record.ending, record.error, record.status) == (Ending.ERROR, "400", 400)


def test_each_try_is_a_record_with_an_id_of_its_own(recorder: Recorder) -> None:
    answers = [httpx2.Response(503, headers={"retry-after-ms": "1"}), httpx2.Response(200, json={"choices": []})]
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: answers.pop(0)))
    with openai.OpenAI(base_url="http://server/v1", api_key="none", max_retries=1, http_client=http) as client:
        wrap_openai(client, recorder).completions.create(**TEXT)
    first, second = recorder.take_records()
    assert (first.ending, second.ending) == (Ending.ERROR, Ending.COMPLETE)
    assert first.request_id != second.request_id


def test_a_client_over_the_older_httpx_is_measured_alike(recorder: Recorder, engine: ServedEngine) -> None:
    http: Any = httpx.Client()
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", http_client=http) as client:
        wrap_openai(client, recorder)
        events = client.completions.create(**TEXT, stream=True, stream_options=USAGE, extra_body=WHOLE)
        texts = [chunk.choices[0].text for chunk in events if chunk.choices and chunk.choices[0].text]
    check_stream(only(recorder), "text_completion", len(texts), engine)


def test_tls_is_timed_apart_through_openai_too(recorder: Recorder, engine: ServedEngine, authority: Authority) -> None:
    delays = Delays(handshake_s=0.4, to_server_s=0.3, to_client_s=0.3)
    with tls_proxy(engine.url, authority, delays) as proxy:
        http = openai.DefaultHttpxClient(verify=authority.client)
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="none", http_client=http) as client:
            wrap_openai(client, recorder)
            for _ in client.completions.create(**TEXT, stream=True, stream_options=USAGE, extra_body=WHOLE):
                pass
    record = only(recorder)
    assert record.tls_s is not None and 0.399 <= record.tls_s < 1.2
    (found,) = join([record], engine.records(record.request_id)).matched
    assert 0.599 <= found.network_s < 1.2


def test_what_is_no_client_is_refused_by_name(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="object is no client of the openai library"):
        wrap_openai(object(), recorder)
