"""The quality gate."""

import numpy as np
import pytest
from scipy import stats
from sse_engine import SseEngine

from controlplane.contract.errors import Unavailable
from tests.tuner.search.asked_engine import asked_engine
from tuner.search import quality_gate


def test_prompts_grow_within_a_passage() -> None:
    found = quality_gate.held_out_prompts(list(range(4000)), passages=10, positions=4, step=24)
    assert len(found) == 40 and {len(prompt) for prompt in found} == {24, 48, 72, 96}
    assert found[3][:24] == found[0]
    assert quality_gate.held_out_prompts([1, 2], passages=3) == []


@pytest.mark.slow
def test_agreement_over_http(engine: SseEngine) -> None:
    prompts = quality_gate.held_out_prompts(list(range(4000)))
    reference = quality_gate.next_tokens(engine.url, "m", prompts)
    assert quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts)) == 1.0
    engine.first_token = lambda prompt: f" t{sum(prompt) % 97}" if len(prompt) > 24 else " other"
    share = quality_gate.agreement(reference, quality_gate.next_tokens(engine.url, "m", prompts))
    assert share == pytest.approx(0.75)
    told = quality_gate.Agreement(share, len(prompts)).told
    assert told["top1_agreement_low"] < share < told["top1_agreement_high"] and told["samples"] == len(prompts)


def test_passages_lie_evenly_from_the_first_token_to_the_last() -> None:
    found = quality_gate.held_out_prompts(list(range(96)), passages=3)
    assert [prompt[0] for prompt in found] == [0, 0, 0, 0], "one passage is all there is"
    assert found[-1] == list(range(96))
    assert quality_gate.held_out_prompts(list(range(95)), passages=3) == []
    starts = [prompt[0] for prompt in quality_gate.held_out_prompts(list(range(24_000)))]
    assert starts[::4] == list(range(0, 24_000, 200)), "as many passages as all looks want, where nobody says"
    whole = quality_gate.held_out_prompts(list(range(quality_gate.TOKENS)))
    assert len(whole) == quality_gate.LOOKS[-1]
    dealt = quality_gate.dealt(whole)
    assert sorted(dealt) == sorted(whole) and dealt != whole and dealt == quality_gate.dealt(whole)
    assert all(dealt[place + 1][:24] == dealt[place] for place in range(0, len(dealt), 4)), "passages stay whole"


@pytest.mark.parametrize(("hits", "samples"), [(60, 80), (10, 10), (0, 5), (1, 40)])
def test_the_interval_is_wilsons_at_the_level_of_one_look(hits: int, samples: int) -> None:
    exact = stats.binomtest(hits, samples).proportion_ci(1 - 2 * 0.05 / len(quality_gate.LOOKS), method="wilson")
    told = quality_gate.Agreement(hits / samples, samples).told
    assert told["top1_agreement"] == hits / samples and told["samples"] == samples
    assert told["top1_agreement_low"] == pytest.approx(exact.low, abs=1e-4)
    assert told["top1_agreement_high"] == pytest.approx(exact.high, abs=1e-4)


def test_disagreement_is_measured_by_what_the_bound_permits() -> None:
    low = quality_gate.Agreement(0.96, 480).low
    assert quality_gate.Agreement(0.96, 480).violation(low) == pytest.approx(0.0)
    assert quality_gate.Agreement(0.96, 480).violation(1 - (1 - low) / 2) == pytest.approx(1.0), "twice as often"
    assert quality_gate.Agreement(1.0, 480).violation(0.9) < 0 < quality_gate.Agreement(0.9, 480).violation(0.9)


def _gate(share: float, random: np.random.Generator, most: int = 480) -> quality_gate.Agreement:
    agree = random.random(most) < share
    return quality_gate.compared(["a"] * most, lambda a, b: ["a" if one else "b" for one in agree[a:b]], 0.9)


def test_what_disagrees_too_often_is_seldom_let_through_and_what_does_not_is_seldom_refused() -> None:
    """At the limit itself 5 % may pass by the promise; the limits of the test are three standard deviations above."""
    random = np.random.default_rng(3)
    at_limit, good, bad = ([_gate(share, random) for _ in range(1000)] for share in (0.9, 0.96, 0.75))
    passed = [sum(one.violation(0.9) <= 0 for one in found) for found in (at_limit, good, bad)]
    assert passed[0] <= 50 + 3 * 50**0.5 and passed[1] > 950 and passed[2] == 0
    assert np.median([one.samples for one in bad]) == 80, "what is far off is decided at the first look"
    assert np.median([one.samples for one in good]) <= 320


def test_with_less_text_it_looks_at_what_there_is() -> None:
    random = np.random.default_rng(4)
    assert _gate(0.9, random, most=40).samples == 40
    assert _gate(0.93, random, most=100).samples in (80, 100)
    asked: list[tuple[int, int]] = []

    def ask(first: int, last: int) -> list[str]:
        asked.append((first, last))
        return ["a"] * (last - first)

    quality_gate.compared(["a"] * 480, ask, 0.97)
    assert asked == [(0, 80), (80, 160), (160, 320)], "no position is asked twice, nor one more than decides"


def test_answers_that_do_not_match_up_are_no_agreement() -> None:
    for reference, other in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(ValueError, match="equally many"):
            quality_gate.agreement(reference, other)


@pytest.mark.parametrize("token_ids", [False, True])
def test_the_engine_is_asked_for_one_greedy_token(token_ids: bool) -> None:
    with asked_engine(lambda _: {"text": " a", "token_ids": [7, 8]}) as (url, asked):
        said = quality_gate.next_tokens(url, "m", [[1, 2]], token_ids=token_ids)
    assert said == (["7"] if token_ids else [" a"])
    wanted = {"model": "m", "prompt": [1, 2], "max_tokens": 1, "temperature": 0.0, "ignore_eos": True}
    assert asked == [wanted | ({"return_token_ids": True} if token_ids else {})]


def test_an_engine_that_does_not_answer_is_named(engine: SseEngine) -> None:
    engine.fail_status = 500
    with pytest.raises(Unavailable, match="no next token for the quality gate"):
        quality_gate.next_tokens(engine.url, "m", [[1]])
