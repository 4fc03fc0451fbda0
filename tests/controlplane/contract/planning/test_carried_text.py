"""The largest load in words."""

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.planning.carried_text import carried_text, limits_text
from controlplane.contract.planning.measurement import Carries


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Carries(load=2.4, low=2.1, high=2.7), "2.4 times the captured load (2.1 to 2.7)"),
        (Carries(load=2.4, low=2.1), "2.4 times the captured load (2.1 or more)"),
        (Carries(load=16, low=12, at_least=True), "at least 16 times the captured load (12 or more)"),
        (Carries(load=0, low=0, high=0), "less than the least load that was tried"),
    ],
)
def test_a_load_is_told_with_its_interval(found: Carries, words: str) -> None:
    assert carried_text(found) == words


def test_limits_are_told_one_after_another() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5), Limit(metric="itl", q=0.99, limit_s=1.5)]
    assert limits_text(limits) == "ttft p95 <= 500 ms, itl p99 <= 1.50 s"
