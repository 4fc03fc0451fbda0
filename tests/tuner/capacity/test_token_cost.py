"""What output tokens cost at the largest load, and what a cheaper configuration saves."""

import pytest

from controlplane.contract.planning.measurement import CarriedLoad, Carries
from tuner.capacity.bracket import LEAST
from tuner.capacity.token_cost import costs_of, token_cost

RUN = CarriedLoad(load=4.0, low=3.0, high=5.0, request_s=0.05, tokens_per_request=100.0, replays=[])
"""20 requests a second at four times the captured load: 2,000 tokens a second."""


def test_it_is_the_time_of_a_node_for_a_thousand_tokens_at_that_load() -> None:
    found = token_cost(RUN, RUN, 1.0)
    assert found is not None
    assert (found.node_s, found.low_s, found.high_s) == pytest.approx((0.5, 0.4, 2.0 / 3.0))


@pytest.mark.parametrize(
    ("carries", "node_s", "low_s", "high_s"),
    [
        (Carries(load=8.0, low=4.0, high=16.0), 0.25, 0.125, 0.5),
        (Carries(load=8.0, low=4.0, at_least=True), 0.25, 0.0, 0.5),
        (Carries(load=0.0, low=0.0, high=0.0), 2.0 / (LEAST / 2.0), 0.0, None),
    ],
)
def test_its_interval_is_that_of_the_load(carries: Carries, node_s: float, low_s: float, high_s: float | None) -> None:
    found = token_cost(carries, RUN, 1.0)
    assert found is not None and (found.node_s, found.low_s) == pytest.approx((node_s, low_s))
    assert found.high_s == pytest.approx(high_s) if high_s else found.high_s is None


def test_times_of_the_rate_at_which_it_was_replayed_do_not_change_it() -> None:
    found = token_cost(Carries(load=4.0, low=3.0, high=5.0), RUN, 2.0)
    assert found is not None and found.node_s == pytest.approx(0.5)
    assert token_cost(RUN, RUN.model_copy(update={"tokens_per_request": None}), 1.0) is None


def test_what_is_saved_is_of_the_pools_own_traffic() -> None:
    default, winner = token_cost(RUN, RUN, 1.0), token_cost(Carries(load=5.0, low=4.5, high=6.0), RUN, 1.0)
    assert default is not None
    found = costs_of(default, winner, 1000.0, (0.2, 0.1, 0.3))
    assert found.tokens_per_day == 86_400_000
    assert found.saved_node_h == pytest.approx(86_400 * 0.5 * 0.2 / 3600)
    assert found.saved_interval == pytest.approx((1.2, 3.6))
    assert costs_of(default, winner, None, (0.2, 0.1, 0.3)).saved_node_h is None
    assert costs_of(default, None, 1000.0).saved_interval is None
