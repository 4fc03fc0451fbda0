"""The worksheet: arithmetic on what was carried, and on so many times the busiest step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.advice.capacity_worksheet import cold_start_s, worksheet
from controlplane.advice.pool_figures import Step
from tests.controlplane.advice.advised_pool import BUSY, COSTS, figures, node

COUNTS = st.integers(0, 5000)


def test_what_was_carried() -> None:
    sheet = worksheet(BUSY, 2)
    assert (sheet.requests_per_s.mean, sheet.requests_per_s.peak) == (10.0, 12.0)
    assert sheet.prompt_tokens_per_s is not None and sheet.prompt_tokens_per_s.peak == 1000.0
    assert (sheet.cached_share, sheet.nodes, sheet.output_tokens_per_node_s) == (0.25, 2, 250.0)
    assert sheet.node_hours == pytest.approx(1 / 3) and sheet.node_hours_per_million == pytest.approx(1 / 0.9)
    assert sheet.steepest_rise == pytest.approx(0.5), "thirty requests more each minute"


def test_a_peak_in_nodes_as_loaded_as_the_busiest_step() -> None:
    found = worksheet(figures(serving=[node(costs=COSTS), node("gpu-2")]), 2.5).at_peak
    assert found is not None
    assert (found.requests_per_s, found.nodes, found.node_hours_a_day) == (30.0, 5, 120.0)
    assert found.in_flight == pytest.approx(30.0 * 0.5), "Little's law, of half a second each"
    # Half a request a second more each second and 2.5 times as steep, over 90 s, of nodes that carry 6 a second.
    assert found.buffer_nodes == 1
    assert any("a start takes as long as before" in one for one in found.assumes)


@given(st.lists(st.tuples(COUNTS, st.integers(1, 9)), min_size=1, max_size=30), st.floats(1, 100))
def test_a_peak_never_asks_for_less_than_was_there_and_grows_with_its_factor(
    told: list[tuple[int, int]], times: float
) -> None:
    pool = figures(steps=[Step(float(count), None, None, nodes if count else 0) for count, nodes in told])
    once, found = worksheet(pool, 1.0).at_peak, worksheet(pool, times).at_peak
    assert (found is None) == (not any(count for count, _ in told))
    if once is not None and found is not None:
        assert found.requests_per_s == pytest.approx(times * max(count for count, _ in told) / 60)
        assert found.nodes >= once.nodes >= 1 and found.nodes < times * once.nodes + 1
        assert found.prompt_tokens_per_s is None, "nobody tells them"


def test_without_a_whole_step_there_is_no_peak() -> None:
    sheet = worksheet(figures(steps=[]), 2)
    assert sheet.at_peak is None and sheet.requests_per_s.peak is None and sheet.requests_per_s.mean == 10.0


def test_what_nobody_tells_is_null() -> None:
    sheet = worksheet(figures(prompt_tokens=None, output_tokens=None, queries=None, waiting=None), 2)
    assert sheet.prompt_tokens_per_s is None and sheet.node_hours_per_million is None
    assert sheet.cached_share is None and sheet.waiting_share is None


def test_the_longest_restart_counts_with_its_warm_up() -> None:
    assert cold_start_s(BUSY) is None
    assert cold_start_s(figures(serving=[node(), node("gpu-2", costs=COSTS)])) == 90.0
