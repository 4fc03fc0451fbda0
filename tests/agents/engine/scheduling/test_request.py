"""A request's own arithmetic: its hashes, its end, what it may skip."""

import pytest

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import FinishReason, Request, chain_hash


def test_block_hashes_are_chained_and_grow_with_the_tokens() -> None:
    request = Request("r", [1, 2, 3, 4, 5], SamplingParams(4))
    first, second = request.block_hashes(2, 2)
    assert first == chain_hash(0, [1, 2]) and second == chain_hash(first, [3, 4])
    request.tokens.append(6)
    assert request.block_hashes(3, 2) == [first, second, chain_hash(second, [5, 6])]
    assert request.block_hashes(1, 2) == [first]
    assert chain_hash(chain_hash(0, [9, 9]), [3, 4]) != second


def test_it_ends_at_its_length_or_at_a_stop_token_whichever_comes_first() -> None:
    request = Request("r", [1], SamplingParams(2, stop_token_ids=frozenset({7})))
    assert request.append(5) is None and request.append(7) is FinishReason.STOP
    request = Request("r", [1], SamplingParams(2, stop_token_ids=frozenset({7})))
    assert request.append(5) is None and request.append(6) is FinishReason.LENGTH
    assert len(request.tokens) == request.most_tokens


@pytest.mark.parametrize(("asked", "known", "skippable"), [(None, 0, 7), (1, 0, 0), (1, 1, 0), (1, 5, 4), (1, 6, 7)])
def test_what_need_not_be_computed_again(asked: int | None, known: int, skippable: int) -> None:
    """A prompt of six tokens and two of output: the last is always computed."""
    request = Request("r", [1] * 6, SamplingParams(4, prompt_logprobs=asked))
    request.tokens += [2, 2]
    request.prompt_logprobs = [None] * known
    assert request.skippable == skippable
