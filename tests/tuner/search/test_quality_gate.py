"""The quality gate."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scipy import stats
from sse_engine import SseEngine

from controlplane.contract.errors import Unavailable
from tuner.search import quality_gate


def test_prompts_grow_within_a_passage() -> None:
    found = quality_gate.held_out_prompts(list(range(4000)), passages=10, positions=4, step=24)
    assert len(found) == 40 and {len(prompt) for prompt in found} == {24, 48, 72, 96}
    assert found[3][:24] == found[0]
    assert quality_gate.held_out_prompts([1, 2], passages=3) == []


def test_agreement_over_http(engine: SseEngine) -> None:
    prompts = quality_gate.held_out_prompts(list(range(4000)))
    reference = quality_gate.next_tokens(engine.url, "m", prompts)
    assert quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts)) == 1.0
    engine.first_token = lambda prompt: f" t{sum(prompt) % 97}" if len(prompt) > 24 else " other"
    share = quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts))
    assert share == pytest.approx(0.75)
    assert quality_gate.violation(share) > 0 > quality_gate.violation(0.95)
    told = quality_gate.report(share, len(prompts))
    assert told["top1_agreement_low"] < share < told["top1_agreement_high"]


def test_passages_lie_evenly_from_the_first_token_to_the_last() -> None:
    found = quality_gate.held_out_prompts(list(range(96)), passages=3)
    assert [prompt[0] for prompt in found] == [0, 0, 0, 0], "one passage is all there is"
    assert found[-1] == list(range(96))
    assert quality_gate.held_out_prompts(list(range(95)), passages=3) == []
    starts = [prompt[0] for prompt in quality_gate.held_out_prompts(list(range(4000)))]
    assert starts[::4] == list(range(0, 4000, 200)), "twenty passages, where nobody says"


@pytest.mark.parametrize(("hits", "samples"), [(60, 80), (10, 10), (0, 5), (1, 40)])
def test_the_interval_is_wilsons(hits: int, samples: int) -> None:
    exact = stats.binomtest(hits, samples).proportion_ci(0.95, method="wilson")
    told = quality_gate.report(hits / samples, samples)
    assert told["top1_agreement"] == hits / samples and told["samples"] == samples
    assert told["top1_agreement_low"] == pytest.approx(exact.low, abs=1e-4)
    assert told["top1_agreement_high"] == pytest.approx(exact.high, abs=1e-4)


def test_disagreement_is_measured_by_what_the_bound_permits() -> None:
    assert quality_gate.violation(0.8) == pytest.approx(1.0), "twice as often as 0.9 permits"
    assert quality_gate.violation(0.9) == pytest.approx(0.0) and quality_gate.violation(1.0) == pytest.approx(-1.0)
    assert quality_gate.violation(0.8, 0.6) == pytest.approx(-0.5)


def test_answers_that_do_not_match_up_are_no_agreement() -> None:
    for reference, other in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(ValueError, match="equally many"):
            quality_gate.agreement(reference, other)


@pytest.mark.parametrize("token_ids", [False, True])
def test_the_engine_is_asked_for_one_greedy_token(token_ids: bool) -> None:
    asked = []

    class Engine(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"choices": [{"text": " a", "token_ids": [7, 8]}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        said = quality_gate.next_tokens(url, "m", [[1, 2]], token_ids=token_ids)
        server.shutdown()
    assert said == (["7"] if token_ids else [" a"])
    wanted = {"model": "m", "prompt": [1, 2], "max_tokens": 1, "temperature": 0.0, "ignore_eos": True}
    assert asked == [wanted | ({"return_token_ids": True} if token_ids else {})]


def test_an_engine_that_does_not_answer_is_named(engine: SseEngine) -> None:
    engine.fail_status = 500
    with pytest.raises(Unavailable, match="no next token for the quality gate"):
        quality_gate.next_tokens(engine.url, "m", [[1]])
