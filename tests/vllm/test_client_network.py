"""Network time at a real vLLM: it keeps the client's request id in its own way, and the join finds it."""

import time
from dataclasses import dataclass
from typing import Any

import openai

from agents.client_measure import ClientRecord, Ending, Recorder, join, wrap_openai
from tests.vllm.observation import told_by_plugin
from tests.vllm.real_vllm import MODEL, VllmServer

PARTS = ("e2e", "ttft")
TOKENS = 12


@dataclass(frozen=True)
class Told:
    """An event of the plugin as the control plane would list it."""

    request_id: str
    parts: dict[str, float]
    node: str = "node-a"


def test_completions_and_chats_are_joined_by_the_clients_id(vllm_server: VllmServer) -> None:
    began, recorder = time.time(), Recorder("client")
    with openai.OpenAI(base_url=f"{vllm_server.url}/v1", api_key="none", max_retries=0) as client:
        wrap_openai(client, recorder)
        asked: dict[str, Any] = {"model": MODEL, "max_tokens": TOKENS, "temperature": 0}
        text = {**asked, "extra_body": {"ignore_eos": True}, "prompt": "def double(x):"}
        client.completions.create(**text)
        assert list(client.completions.create(**text, stream=True, stream_options={"include_usage": True}))
        assert list(client.completions.create(**text, stream=True, extra_headers={"X-Request-Id": "order-66"}))
    records = recorder.take_records()
    assert [record.ending for record in records] == [Ending.COMPLETE] * 3
    assert records[-1].request_id == "order-66"
    found = join(records, told(vllm_server, records, began))
    assert len(found.matched) == 3 and (found.unmatched_client, found.unmatched_server) == (0, 0)
    for record, time_ in zip(records, found.matched, strict=True):
        assert record.finish_reason == "length" and record.tokens <= TOKENS
        assert 0.0 < time_.server_e2e_s < time_.client_e2e_s
    whole, streamed, _ = found.matched
    assert whole.network_ttft_s is None and streamed.network_ttft_s is not None
    assert records[1].output_tokens == TOKENS


def told(server: VllmServer, records: list[ClientRecord], began: float) -> list[Told]:
    values = told_by_plugin(server, {f"cmpl-{record.request_id}-0" for record in records}, began)
    return [
        Told(request_id, {part: event[part] for part in PARTS if event[part] is not None})
        for request_id, event in values.finished.items()
    ]
