"""Prompts dealt to requests: lengths are the traffic's to the token, texts and what they share are the user's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import BadRequest
from tuner.workload.prompt_dealer import (
    PromptDealer,
    TokenPrompt,
    described,
    drawn,
    enough_of,
    repeated_share,
)
from tuner.workload.trace import workload_of

SYSTEM = list(range(1000, 1048))


def traffic(*lengths: int, answers: int = 5) -> Workload:
    """With blocks that all share, which must not matter."""
    return workload_of(
        WorkloadRequest(
            timestamp=place, input_length=length, output_length=answers, hash_ids=[7] * min(1, length // 16)
        )
        for place, length in enumerate(lengths)
    )


def own(*lengths: int) -> list[TokenPrompt]:
    return [TokenPrompt([100 * (place + 1)] * length) for place, length in enumerate(lengths)]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.lists(st.integers(1, 500), min_size=1), st.integers())
def test_lengths_are_the_traffics_and_equal_arguments_give_equal_prompts(
    wanted: list[int], have: list[int], salt: int
) -> None:
    dealt = PromptDealer(own(*have), salt).prompts(traffic(*wanted))
    assert [len(one) for one in dealt] == wanted
    assert dealt == PromptDealer(own(*have), salt).prompts(traffic(*wanted))


def test_each_request_gets_a_prompt_of_its_own_length_and_none_twice_before_all_were() -> None:
    prompts = own(10, 100, 1000, 12, 110, 900)
    dealer = PromptDealer(prompts)
    dealt = dealer.prompts(traffic(11, 105, 800, 12, 100, 1000))
    assert sorted(one[0] for one in dealt) == [100, 200, 300, 400, 500, 600] and dealer.rounds == 1
    assert (dealt[0][0], dealt[3][0]) == (400, 100), "what is long enough comes first"
    assert {dealt[2][0], dealt[5][0]} == {300, 600}
    dealer.prompts(traffic(11))
    assert dealer.rounds == 2


def test_what_is_too_long_is_cut_and_what_is_too_short_is_joined() -> None:
    dealer = PromptDealer(own(40, 9))
    first, second = dealer.prompts(traffic(36, 33))
    assert first == [100] * 36 and second[:9] == [200] * 9 and set(second[9:]) <= {100, 200}
    assert (dealer.cut, dealer.joined) == (1, 1)


def test_an_answers_length_chooses_within_a_bucket() -> None:
    prompts = [TokenPrompt([place] * 50, most) for place, most in enumerate((8, 64, 512, None))]
    for answers, place in ((7, 0), (70, 1), (600, 2)):
        for salt in range(5):
            dealt = PromptDealer(prompts[:3], salt).prompts(traffic(50, answers=answers))
            assert dealt[0][0] == place


def test_other_salts_deal_others() -> None:
    prompts = own(*[50] * 40)
    assert len({tuple(PromptDealer(prompts, salt).prompts(traffic(50))[0]) for salt in range(10)}) > 4


def test_what_prompts_share_is_told_as_a_cache_would_find_it() -> None:
    prompts = [TokenPrompt(SYSTEM + [place] * 16) for place in range(4)]
    dealer = PromptDealer(prompts)
    dealt = dealer.prompts(traffic(64, 64, 64, 64))
    assert all(one[:48] == SYSTEM for one in dealt)
    assert repeated_share(dealt, 16) == pytest.approx(3 * 48 / 256)
    assert described(dealer, dealt, 16) == {
        "requests": 4, "cut": 0, "joined": 0, "rounds": 1, "prefix_share": 0.5625
    }  # fmt: skip


def test_what_is_asked_of_quality_is_never_replayed() -> None:
    replayed, held = drawn(500, 3, quality=False), drawn(500, 3, quality=True)
    assert not set(replayed) & set(held) and len(replayed) + len(held) == 500 and 25 <= len(held) <= 80
    assert drawn(500, 4, quality=False) != replayed and drawn(500, 4, quality=True) == held
    assert drawn(20, 0, quality=True) == [], "of few prompts all are replayed"
    assert enough_of(own(30, 30), 50) == [100] * 30 + [200] * 20 and enough_of(own(30), 50) == []


def test_prompts_without_a_token_are_refused() -> None:
    with pytest.raises(BadRequest, match="no tokens"):
        PromptDealer([TokenPrompt([])])
