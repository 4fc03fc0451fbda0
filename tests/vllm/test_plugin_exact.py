"""What the plugin tells of a real vLLM, against vLLM's own values and against what the clients got."""

import random
import time

import pytest

from tests.vllm.observation import engine_ids, told_by_plugin, told_by_vllm
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import VllmServer

PARTS = ("receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted")


def test_every_request_is_told_with_the_values_that_vllm_itself_has(vllm_server: VllmServer) -> None:
    drawn = random.Random(5)
    began = time.time()
    answers = vllm_server.complete_all(prompts(40, seed=5), [drawn.randrange(1, 49) for _ in range(40)])
    assert [answer.error for answer in answers if answer.failed] == []
    ids = engine_ids(answers)
    told, own = told_by_plugin(vllm_server, ids, began), told_by_vllm(vllm_server, ids, began)

    assert told.finished.keys() == own.finished.keys() == ids
    assert told.ttft == own.ttft and len(told.ttft) == len(answers)
    assert told.itl == own.itl and told.itl
    for answer in answers:
        event, raw = told.finished[f"{answer.request_id}-0"], own.finished[f"{answer.request_id}-0"]
        assert (event["prompt_tokens"], event["output_tokens"]) == (answer.prompt_tokens, answer.output_tokens)
        assert event["cached_tokens"] == raw["cached_tokens"]
        assert event["finish_reason"] == "length"
        for name in ("e2e", "queue", "prefill", "decode"):
            assert event[name] == raw[name], name
        # The server's part of what its client waited for; two clocks, so a few milliseconds are nobody's.
        assert event["ttft"] <= event["e2e"] <= answer.whole_s + 0.005


def test_the_parts_of_every_request_add_up(vllm_server: VllmServer) -> None:
    began = time.time()
    answers = vllm_server.complete_all(prompts(24, seed=6), 24)
    told = told_by_plugin(vllm_server, engine_ids(answers), began)
    for event in told.finished.values():
        assert sum(event[part] for part in PARTS) == pytest.approx(event["e2e"], abs=1e-6)
        assert abs(event["unaccounted"]) < 0.02 * event["e2e"]
        assert all(event[part] >= 0 for part in PARTS[:-1])
