"""What people are told of a node's clock."""

import pytest

from controlplane.contract.reports.node_clock import NodeClock


@pytest.mark.parametrize(
    ("offset_s", "error_s", "words"),
    [
        (0.0004, 0.001, "400 µs behind the service's, ± 1 ms"),
        (-3.25, 0.02, "3.25 s ahead of the service's, ± 20 ms"),
        (90.0, 1.5, "90.0 s behind the service's, ± 1.50 s"),
    ],
)
def test_it_is_said_which_clock_is_behind(offset_s: float, error_s: float, words: str) -> None:
    assert NodeClock(offset_s, error_s).words == words


@pytest.mark.parametrize(
    ("offset_s", "error_s", "hinted"), [(0.9, 0.0, False), (1.1, 0.0, True), (-1.1, 0.0, True), (1.5, 0.6, False)]
)
def test_a_hint_is_given_only_where_it_is_sure(offset_s: float, error_s: float, hinted: bool) -> None:
    assert bool(NodeClock(offset_s, error_s).hint) == hinted
