"""The share of requests served: found at once, never made up, and blind to nothing but what clients leave."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.reports import finish_reasons
from controlplane.rollouts.judging.served import Outcomes, ServedShare, _counts
from tests.soak import soak

BOUND = math.log(5 / 0.01)
SETTLE_AND_LAG_S = 15


def judged(
    rng: np.random.Generator, rates: tuple[float, float], shares: tuple[float, float], ticks: int, history: int = 60
) -> tuple[ServedShare, int]:
    """After the first finding or all ticks; the history before has the control's share on both arms."""

    def window(canary_share: float) -> Outcomes:
        a, b = (int(rng.poisson(5 * rate)) for rate in rates)
        return Outcomes(a, int(rng.binomial(a, shares[0])), b, int(rng.binomial(b, canary_share)))

    served = ServedShare.start()
    served.rehearse([window(shares[0]) for _ in range(history)], concurrent=True)
    for tick in range(1, ticks + 1):
        served.feed(window(shares[1]), concurrent=True, bound=BOUND)
        served = ServedShare.model_validate_json(served.model_dump_json())
        if served.stream.is_worse:
            return served, tick
    return served, ticks


@pytest.mark.parametrize(("total", "share"), [(5.0, 0.5), (10.0, 0.2), (10.0, 0.5), (20.0, 0.2)])
def test_a_canary_that_loses_a_third_is_worse_within_a_minute(total: float, share: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng((1, seed))
        served, ticks = judged(rng, (total * (1 - share), total * share), (0.0, 0.3), 60)
        assert served.stream.is_worse
        assert 5 * ticks + SETTLE_AND_LAG_S <= 60


@pytest.mark.slow
@pytest.mark.soak
def test_arms_that_lose_equally_are_not_told_apart() -> None:
    said = [
        judged(np.random.default_rng((2, seed)), (2.5, 2.5), (share, share), 120)[0].stream.is_worse
        for share in (0.05, 0.3)
        for seed in range(soak(12, 50))
    ]
    assert sum(said) == 0


def test_its_own_history_stands_in_for_a_control() -> None:
    rng = np.random.default_rng(3)
    served = ServedShare.start()
    served.rehearse([Outcomes(int(rng.poisson(12)), 0) for _ in range(60)], concurrent=False)
    ticks = 0
    while not served.stream.is_worse:
        offered = int(rng.poisson(12))
        served.feed(Outcomes(0, 0, offered, int(rng.binomial(offered, 0.3))), concurrent=False, bound=BOUND)
        ticks += 1
    assert 5 * ticks + SETTLE_AND_LAG_S <= 60
    assert len(served.past) == 60 - ticks


@given(
    reasons=st.lists(
        st.tuples(st.sampled_from(sorted(finish_reasons.ALL)), st.integers(0, 9), st.booleans()), max_size=20
    )
)
def test_every_request_is_counted_by_what_its_reason_means(reasons: list[tuple[str, int, bool]]) -> None:
    outcomes = Outcomes()
    for reason, requests, is_canary in reasons:
        outcomes.add(reason, requests, is_canary=is_canary)
    ended = [(reason, requests) for reason, requests, is_canary in reasons if is_canary and reason != "abort"]
    assert outcomes.canary == sum(requests for _, requests in ended)
    assert outcomes.canary_lost == sum(requests for reason, requests in ended if reason in finish_reasons.FAILED)
    assert outcomes.canary_lost == sum(outcomes.canary_reasons.values())


def test_the_account_names_shares_and_reasons() -> None:
    served = ServedShare.start()
    outcomes = Outcomes()
    for reason, requests, is_canary in (
        ("stop", 10, False),
        ("stop", 6, True),
        ("refused", 3, True),
        ("shed", 1, True),
    ):
        outcomes.add(reason, requests, is_canary=is_canary)
    served.feed(outcomes, concurrent=True, bound=BOUND)
    told = served.evidence()
    assert told["control"] == {"offered": 10, "lost": 0, "share": 1.0, "reasons": {}}
    assert told["canary"] == {"offered": 10, "lost": 4, "share": 0.6, "reasons": {"refused": 3, "shed": 1}}
    assert told["finding"] == "undecided"


windows = st.builds(Outcomes, st.integers(0, 9), st.integers(0, 2), st.integers(0, 9), st.integers(0, 2))


@given(st.lists(windows, max_size=60))
def test_a_past_without_losses_is_learnt_from_as_if_each_window_were_taken(past: list[Outcomes]) -> None:
    past = [Outcomes(a.control + a.control_lost, a.control_lost, a.canary + a.canary_lost, a.canary_lost) for a in past]
    found, plain = ServedShare.start(), ServedShare.start()
    found.rehearse(past, concurrent=True)
    for one in past:
        plain.stream.take({"": _counts(one)}, rehearsal=True)
    assert found.stream.levels == plain.stream.levels
