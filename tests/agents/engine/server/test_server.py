"""The engine through real HTTP: what clients, agents and careless hands do to it."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from agents.engine.core.engine import Engine
from agents.engine.core.step import StepEngine
from controlplane.contract import metrics
from controlplane.contract.knobs import parse_config
from tests.agents.engine.serving import controlling, serving

PROMPT = "the cat sat on the mat and"
PARTS = [part.short for part in metrics.REQUEST_PARTS]


class Served:
    """A running engine, a client of it, and who controls it."""

    def __init__(self, engine: Engine, client: httpx.Client, control: httpx.Client) -> None:
        self.engine, self.client, self.control = engine, client, control

    def complete(self, **fields: Any) -> httpx.Response:
        return self.client.post(
            "/v1/completions", json={"prompt": PROMPT, "temperature": 0, "ignore_eos": True, **fields}
        )

    def stream(self, **fields: Any) -> str:
        body = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True, "stream": True, **fields}
        with self.client.stream("POST", "/v1/completions", json=body) as response:
            return "".join(chunk["choices"][0]["text"] for chunk in _chunks(response) if chunk["choices"])

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.engine.log.after(0, 10**6) if event["kind"] == kind]

    def finished(self, request_id: str) -> Any:
        return eventually(lambda: [event for event in self.events("finished") if event["request_id"] == request_id])[0]

    @property
    def is_idle(self) -> bool:
        steps = self.engine.steps
        return steps.pool.num_held == 0 and not steps.scheduler.running and not steps.scheduler.waiting


def eventually(condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)
    return value


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    assert response.status_code == 200
    told = [one.data for one in EventSource(response).iter_sse()]
    assert told[-1] == "[DONE]"
    yield from map(json.loads, told[:-1])


@contextlib.contextmanager
def _serving(model_dir: Path, **options: Any) -> Iterator[Served]:
    with (
        serving(model_dir, **options) as (engine, url),
        controlling(engine) as control,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield Served(engine, client, control)


@pytest.fixture(scope="module")
def served(model_dir: Path) -> Iterator[Served]:
    with _serving(model_dir) as running:
        yield running


@pytest.fixture
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of at least 3 ms, so that a tiny model's request is still going when the test acts."""
    step = StepEngine.step
    monkeypatch.setattr(StepEngine, "step", lambda self: (time.sleep(0.003), step(self))[1])


def test_stream_and_whole_answer_have_the_same_text(served: Served) -> None:
    answer = served.complete(max_tokens=40).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 40
    assert served.stream(max_tokens=40) == answer["choices"][0]["text"]
    assert served.stream(max_tokens=40, stream_options={"include_usage": True}) == answer["choices"][0]["text"]


def test_chat_streams_deltas_and_usage(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "temperature": 0, "ignore_eos": True}
    whole = served.client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    with served.client.stream("POST", "/v1/chat/completions", json=body) as response:
        chunks = list(_chunks(response))
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks if c["choices"]) == whole["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == 6 and chunks[-1]["choices"] == []
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    same = served.client.post(
        "/v1/chat/completions", json={**body, "stream": False, "messages": [{"role": "user", "content": parts}]}
    )
    assert same.json()["choices"][0]["message"] == whole


def test_a_stop_string_ends_the_text_before_it(served: Served) -> None:
    text = served.complete(max_tokens=40).json()["choices"][0]["text"]
    stop = text[10:13]
    answer = served.complete(max_tokens=40, stop=stop).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["text"] == text[: text.index(stop)] == served.stream(max_tokens=40, stop=[stop])
    eventually(lambda: served.is_idle)


def test_a_seed_repeats_and_another_does_not(served: Served) -> None:
    first, again, other = (served.stream(max_tokens=20, temperature=1.0, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_token_ids_as_prompt_and_the_tokenizer_endpoints(served: Served) -> None:
    tokens = served.client.post("/tokenize", json={"prompt": PROMPT}).json()
    assert tokens["count"] == len(tokens["tokens"])
    assert served.client.post("/detokenize", json={"tokens": tokens["tokens"]}).json() == {"prompt": PROMPT}
    by_ids, by_text = served.complete(prompt=tokens["tokens"], max_tokens=5), served.complete(max_tokens=5)
    assert by_ids.json()["choices"] == by_text.json()["choices"]


@pytest.mark.parametrize("streaming", [True, False])
def test_the_parts_add_up_to_the_end_to_end_time(served: Served, streaming: bool) -> None:
    def ask(number: int) -> None:
        headers = {"X-Request-Id": f"parts-{streaming}-{number}", "X-Tailwright-Tenant": "acme"}
        body = {"prompt": PROMPT * (number + 1), "max_tokens": 60, "ignore_eos": True, "stream": streaming}
        assert served.client.post("/v1/completions", json=body, headers=headers).status_code == 200

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(12)))
    for number in range(12):
        event = served.finished(f"parts-{streaming}-{number}")
        assert sum(event[part] for part in PARTS) + event["unaccounted"] == pytest.approx(event["e2e"])
        assert abs(event["unaccounted"]) < 0.02 * event["e2e"], event
        assert all(event[part] >= 0 for part in PARTS)
        assert 0 < event["ttft"] < event["e2e"]
        assert event["tpot"] == pytest.approx((event["e2e"] - event["ttft"]) / 59)
        assert (event["output_tokens"], event["finish_reason"], event["tenant"]) == (60, "length", "acme")
        assert len(event["block_hashes"]) == event["prompt_tokens"] // event["block_size"]


def test_gaps_and_first_tokens_are_told(served: Served) -> None:
    before = served.engine.log.newest
    served.stream(max_tokens=30)
    eventually(lambda: served.engine.log.after(before, 10**6)[-1]["kind"] == "finished")
    news = served.engine.log.after(before, 10**6)
    assert sum(len(event["gaps"]) for event in news if event["kind"] == "gaps") == 29
    assert len([event for event in news if event["kind"] == "first_token"]) == 1
    steps = [event for event in news if event["kind"] == "step"]
    assert len(steps) == 30
    assert all(event[stage] > 0 for event in steps for stage in ("schedule", "forward", "sample", "commit"))


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_that_leaves_frees_its_blocks(served: Served, slow_steps: None, streaming: bool) -> None:
    body = {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": streaming}
    content = json.dumps(body).encode()
    host, port = served.client.base_url.host, served.client.base_url.port
    request_id = f"leaver-{streaming}"
    with socket.create_connection((host, port)) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: {request_id}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        client.sendall(head.encode() + content)
        eventually(lambda: any(running.num_outputs > 10 for running in served.engine.steps.scheduler.running))
    eventually(lambda: served.is_idle)
    event = served.finished(request_id)
    assert event["finish_reason"] == "abort" and 0 < event["output_tokens"] < 400
    assert sum(event[part] for part in PARTS) + event["unaccounted"] == pytest.approx(event["e2e"])
    assert abs(event["unaccounted"]) < 0.02 * event["e2e"]


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "unknown model": ({"model": "other"}, 404, "model"),
    "prompt too long": ({"prompt": [1] * 512}, 400, "prompt"),
    "too many tokens asked for": ({"max_tokens": 600}, 400, "max_tokens"),
    "no tokens asked for": ({"max_tokens": 0}, 400, "max_tokens"),
    "empty prompt": ({"prompt": ""}, 400, "prompt"),
    "no prompt": ({"prompt": None}, 400, "prompt"),
    "too many prompts": ({"prompt": ["a"] * 257}, 400, "prompt"),
    "a token outside the vocabulary": ({"prompt": [1, 320]}, 400, "prompt"),
    "negative temperature": ({"temperature": -1}, 400, "temperature"),
    "top_p of zero": ({"top_p": 0}, 400, "top_p"),
    "text for a number": ({"max_tokens": "many"}, 400, "max_tokens"),
    "a misspelt field": ({"max_token": 3}, 400, "max_token"),
    "too many answers": ({"n": 17}, 400, "n"),
    "a choice among answers": ({"best_of": 2}, 400, "best_of"),
    "too many log probabilities": ({"logprobs": 21}, 400, "logprobs"),
    "a penalty beyond bounds": ({"frequency_penalty": 2.5}, 400, "frequency_penalty"),
    "a bias outside the vocabulary": ({"logit_bias": {"320": 1}}, 400, "logit_bias"),
    "a bias of no token": ({"logit_bias": {"cat": 1}}, 400, "logit_bias"),
    "a stop token outside the vocabulary": ({"stop_token_ids": [4000]}, 400, "stop_token_ids"),
    "more wanted than allowed": ({"max_tokens": 3, "min_tokens": 4}, 400, "min_tokens"),
    "no time at all": ({"timeout_s": 0}, 400, "timeout_s"),
    "a form of answer": ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    "prompt log probabilities in a stream": ({"prompt_logprobs": 1, "stream": True}, 400, "stream"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_name_the_field(served: Served, case: str) -> None:
    fields, status, field = BAD[case]
    response = served.complete(**fields)
    error = response.json()["error"]
    assert (response.status_code, error["detail"]["field"]) == (status, field)
    assert error["code"] and field in error["message"]
    assert served.is_idle


def test_fields_that_change_nothing_are_taken(served: Served) -> None:
    extra = {
        "n": 1,
        "echo": False,
        "logprobs": None,
        "user": "me",
        "presence_penalty": 0.0,
        "logit_bias": {},
        "stop": None,
    }
    assert served.complete(max_tokens=2, **extra).status_code == 200


@pytest.mark.parametrize("body", [b"{", b"[1]", b"", b"\xff\xfe"])
def test_a_body_that_is_no_json_object_is_a_400(served: Served, body: bytes) -> None:
    json_type = {"Content-Type": "application/json"}
    for client, method, path in (
        (served.client, "POST", "/v1/completions"),
        (served.client, "POST", "/v1/chat/completions"),
        (served.control, "PUT", "/config"),
        (served.client, "POST", "/tokenize"),
    ):
        response = client.request(method, path, content=body, headers=json_type)
        assert response.status_code == 400, path
        assert response.json()["error"]["detail"]["field"] == "body"


BAD_CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown knob": ({"knobs": {"max_num_seq": 3}}, "knobs.max_num_seq"),
    "out of range": ({"knobs": {"max_num_seqs": 0}}, "knobs.max_num_seqs"),
    "no such format": ({"knobs": {"quantization": "int3"}}, "knobs.quantization"),
    "wrong kind": ({"knobs": {"max_num_seqs": "8"}}, "knobs.max_num_seqs"),
    "no knobs": ({"knobs": 3}, "knobs"),
    "unknown part": ({"knob": {}}, "knob"),
    "bad revision": ({"knobs": {}, "revision": "a"}, "revision"),
}


@pytest.mark.parametrize("case", BAD_CONFIG)
def test_a_bad_configuration_changes_nothing_and_names_the_field(served: Served, case: str) -> None:
    body, field = BAD_CONFIG[case]
    before = served.control.get("/config").json()
    response = served.control.put("/config", json=body)
    assert (response.status_code, response.json()["error"]["detail"]["field"]) == (400, field)
    assert served.control.get("/config").json() == before


def test_unknown_addresses_and_wrong_methods_have_the_contracts_body(served: Served) -> None:
    assert served.client.get("/nope").json()["error"]["code"] == "not_found"
    response = served.client.get("/v1/completions")
    assert response.status_code == 405 and response.json()["error"]["message"]
    assert served.control.get("/events?after=x").json()["error"]["detail"]["field"] == "after"


def test_the_request_id_is_honoured_echoed_or_made(served: Served) -> None:
    assert served.client.get("/health", headers={"X-Request-Id": "abc"}).headers["X-Request-Id"] == "abc"
    assert len(served.client.get("/health").headers["X-Request-Id"]) == 32


def test_models_health_and_metrics(served: Served) -> None:
    assert [model["id"] for model in served.client.get("/v1/models").json()["data"]] == ["tiny"]
    assert served.client.get("/health").status_code == 200
    served.complete(max_tokens=3)
    text = served.client.get("/metrics").text
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total",
        "time_to_first_token_seconds_bucket",
        "inter_token_latency_seconds_bucket",
        "e2e_request_latency_seconds_bucket",
    ):
        assert f"vllm:{name}{{" in text, name


def test_the_prefix_cache_is_used_and_can_be_emptied(served: Served) -> None:
    prompt = "the dog on the log and the hen on the mat " * 3
    cached = []
    for reset in (True, False, True):
        if reset:
            served.control.post("/cache/reset")
        cached.append(
            served.complete(prompt=prompt, max_tokens=2).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        )
    assert cached[0] == cached[2] == 0 < cached[1]


@pytest.mark.slow
def test_every_knob_changes_while_requests_stream_and_none_is_lost(served: Served, slow_steps: None) -> None:
    wanted = served.complete(max_tokens=120).json()["choices"][0]["text"]
    changes: list[dict[str, Any]] = [
        {"max_num_seqs": 2},
        {"max_num_batched_tokens": 16, "prefill_chunk_size": 8},
        {"num_speculative_tokens": [[2, 4], [8, 1]]},
        {"quantization": "int8"},
        {"quantization": "none", "max_num_seqs": 32},
        {"num_speculative_tokens": 0, "max_num_batched_tokens": 512, "prefill_chunk_size": 0},
    ]
    with ThreadPoolExecutor(8) as pool:
        texts = [pool.submit(served.stream, max_tokens=120, prompt=PROMPT) for _ in range(8)]
        for number, change in enumerate(changes, 1):
            eventually(lambda: served.engine.steps.scheduler.running)
            answer = served.control.put("/config", json={"knobs": change, "revision": number})
            assert answer.status_code == 200, answer.text
            effective = answer.json()
            assert effective["revision"] == number and not effective["draining"]
            assert effective["knobs"] == {**effective["knobs"], **change}
            assert set(effective["sources"]) == set(effective["knobs"])
            texts += [pool.submit(served.stream, max_tokens=120, prompt=PROMPT) for _ in range(3)]
        got = [text.result() for text in texts]
    assert len(got) == 26 and got.count(wanted) >= 18, "all were answered, those in float32 with the same text"
    assert served.events("step")[-1]["revision"] == len(changes)
    eventually(lambda: served.is_idle)
    assert served.control.put("/config", json={"knobs": {}}).json()["revision"] == 0


def test_a_swap_drains_and_reports_it(served: Served, slow_steps: None) -> None:
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(served.stream, max_tokens=150)
        eventually(lambda: served.engine.steps.scheduler.running)
        swap = pool.submit(served.control.put, "/config", json={"knobs": {"quantization": "int8"}, "revision": 5})
        eventually(lambda: served.control.get("/config").json()["draining"])
        assert served.control.get("/config").json()["knobs"]["quantization"] == "none", (
            "the effective one, not the wanted"
        )
        late = pool.submit(served.stream, max_tokens=3)
        assert not late.done()
        assert swap.result().json()["knobs"]["quantization"] == "int8"
        assert running.done() or running.result()
        assert late.result()
    assert served.control.put("/config", json={"knobs": {"quantization": "none"}}).status_code == 200


def test_the_last_configuration_wins_over_one_that_drains(served: Served, slow_steps: None) -> None:
    with ThreadPoolExecutor(4) as pool:
        running = pool.submit(served.stream, max_tokens=150)
        eventually(lambda: served.engine.steps.scheduler.running)
        swaps = []
        for number in (7, 8):
            knobs = {"quantization": "int8", "max_num_seqs": number}
            swaps.append(pool.submit(served.control.put, "/config", json={"knobs": knobs, "revision": number}))
            eventually(lambda: (waits := served.engine._pending) and waits[1] == number)  # noqa: B023 - awaited at once.
        superseded = swaps[0].result()
        assert superseded.status_code == 409
        assert superseded.json()["error"]["detail"] == {"superseded_by": 8}
        late = pool.submit(served.stream, max_tokens=3)
        # Live knobs alone need no draining: they are in force at once, and the swap is off.
        live = served.control.put("/config", json={"knobs": {"max_num_seqs": 5}, "revision": 9})
        assert not running.done(), "it did not wait"
        assert (live.status_code, live.json()["draining"], live.json()["revision"]) == (200, False, 9)
        assert live.json()["knobs"]["max_num_seqs"] == 5 and live.json()["knobs"]["quantization"] == "none"
        assert swaps[1].result().json()["error"]["detail"] == {"superseded_by": 9}
        assert late.result() and running.result(), "no request was lost"
    assert served.control.put("/config", json={"knobs": {"max_num_seqs": 32}}).status_code == 200


def test_events_are_followed_resumed_and_nobody_has_to_read(served: Served) -> None:
    follows = threading.Event()

    def read(query: str, count: int) -> list[Any]:
        lines: list[Any] = []
        with served.control.stream("GET", f"/events?{query}") as response:
            for line in response.iter_lines():
                lines.append(json.loads(line))
                follows.set()
                if len(lines) == count:
                    break
        return lines

    served.complete(max_tokens=5)
    hello, *events = read("", 4)
    assert hello["kind"] == "hello" and hello["model"] == "tiny" and hello["oldest"] == events[0]["seq"]
    boot, newest = hello["boot"], served.engine.log.newest
    assert hello["process"] == f"engine:{boot}" and hello["version"].startswith("tailwright ")
    with ThreadPoolExecutor(1) as pool:
        follows.clear()
        following = pool.submit(read, f"boot={boot}&after={newest}", 3)
        assert follows.wait(60), "its greeting has come, and nothing else yet"
        served.complete(max_tokens=5)
        assert [event["seq"] for event in following.result()[1:]] == [newest + 1, newest + 2]
    assert read(f"boot=other&after={newest}", 2)[1]["seq"] == hello["oldest"]
    assert served.complete(max_tokens=2).status_code == 200, "readers that went away leave the engine serving"


@pytest.mark.parametrize("after", ["-1", "x", "", "9" * 6000])
def test_following_from_no_sequence_number_is_a_400(served: Served, after: str) -> None:
    answer = served.control.get("/events", params={"after": after})
    assert (answer.status_code, answer.json()["error"]["detail"]["field"]) == (400, "after")


def test_a_full_queue_is_a_429_with_retry_after(model_dir: Path, slow_steps: None) -> None:
    with (
        _serving(model_dir, max_waiting=1, config=parse_config({"max_num_seqs": 1})) as small,
        ThreadPoolExecutor(2) as pool,
    ):
        running = pool.submit(small.complete, max_tokens=100)
        eventually(lambda: small.engine.steps.scheduler.running)
        waiting = pool.submit(small.complete, max_tokens=1)
        eventually(lambda: small.engine.steps.scheduler.waiting)
        refused = small.complete(max_tokens=1)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        late = small.complete(max_tokens=1, timeout_s=1e-6, n=2)
        assert late.status_code == 503
        told = [event["requests"] for event in small.events("counts")]
        assert told == [{"refused": 1}, {"refused": 2}], "each answer that was turned away is told, and has no latency"
        assert running.result().status_code == waiting.result().status_code == 200


def test_a_request_that_can_never_fit_is_refused(model_dir: Path) -> None:
    with _serving(model_dir, kv_cache_memory_bytes=4 * 16 * 2 * 2 * 2 * 16 * 4) as small:
        response = small.complete(prompt=[1] * 20, max_tokens=60)
        assert (response.status_code, response.json()["error"]["detail"]["field"]) == (400, "max_tokens")
        assert small.complete(prompt=[1] * 20, max_tokens=44).status_code == 200


def test_requests_that_an_engine_had_when_it_stopped_are_lost_not_left(model_dir: Path, slow_steps: None) -> None:
    with _serving(model_dir) as stopped, ThreadPoolExecutor(1) as pool:
        running = pool.submit(stopped.complete, max_tokens=100)
        eventually(lambda: stopped.engine.steps.scheduler.running)
        stopped.engine.stop()
        assert running.result().status_code == 503
        assert [event["finish_reason"] for event in stopped.events("finished")] == ["error"]
        assert stopped.complete(max_tokens=1).status_code == 503
        assert [event["requests"] for event in stopped.events("counts")] == [{"refused": 1}]


@pytest.mark.slow
def test_a_failing_step_ends_its_requests_and_the_engine_serves_on(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _serving(model_dir) as fragile:
        good = fragile.complete(max_tokens=5).json()["choices"]
        with monkeypatch.context() as broken:
            broken.setattr("agents.engine.model.runner.Runner.forward", lambda self, batch: 1 / 0)
            answer = fragile.complete(max_tokens=5)
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert fragile.complete(max_tokens=5).json()["choices"] == good
        assert fragile.is_idle
