"""vLLM's spans, read."""

from typing import Any

import pytest

from agents.backends.vllm.measures.traced_request import requests_of
from tests.agents.backends.vllm.measures.spans import export, span


def test_a_span_as_vllm_sends_it() -> None:
    ((request,), wrong) = requests_of(export(span()))
    assert wrong == []
    assert request.request_id == "cmpl-1"
    assert (request.arrival, request.end, request.e2e, request.ttft) == (999.0, 1000.0, 1.0, 0.25)
    assert (request.prompt_tokens, request.output_tokens) == (100, 16)
    assert request.first_token == pytest.approx(999.25)
    assert request.tpot == pytest.approx(0.75 / 15)
    assert request.observed() == {
        "e2e": 1.0, "queue": 0.05, "prefill": 0.15, "decode": 0.75, "tpot": pytest.approx(0.05)
    }  # fmt: skip


def test_other_spans_are_passed_over() -> None:
    assert requests_of(export(span(name="Loading model"), span())) == (requests_of(export(span()))[0], [])


def test_a_request_of_one_token_has_no_time_per_token() -> None:
    ((request,), _) = requests_of(export(span(completion_tokens=1)))
    assert request.tpot is None and "tpot" not in request.observed()


def test_an_older_vllm_that_tells_less() -> None:
    ((request,), _) = requests_of(export(span(time_in_model_prefill=None, time_in_model_decode=None)))
    assert request.prefill is None and request.decode is None
    assert request.observed() == {"e2e": 1.0, "queue": 0.05}


def test_a_difference_with_a_clock_mark_of_zero_is_no_duration() -> None:
    ((request,), wrong) = requests_of(export(span(time_in_model_prefill=-12345.6, time_to_first_token=0.0)))
    assert request.prefill is None and request.ttft == 0.0 and wrong == []


@pytest.mark.parametrize(
    "changed",
    [
        {"e2e": None},
        {"e2e": "slow"},
        {"e2e": float("nan")},
        {"prompt_tokens": None},
        {"completion_tokens": -3},
        {"completion_tokens": "many"},
    ],
)
def test_a_span_that_cannot_be_read_costs_no_other(changed: dict[str, Any]) -> None:
    found, wrong = requests_of(export(span(**changed), span()))
    assert len(found) == 1 and len(wrong) == 1
    assert next(iter(changed)) in wrong[0]
