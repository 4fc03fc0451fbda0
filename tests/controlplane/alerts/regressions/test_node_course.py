"""What all nodes share cancels, and a line says the same whether its ticks came at once or one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.alerts.regressions.node_course import Grid, NodeCourse, Usual, node_course
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.node_levels import NodeLevels
from tests.controlplane.alerts.regressions.served_by_nodes import METRIC, START_S, ServedByNodes

HARDWARE = {"a": 1.0, "b": 1.4, "c": 0.8}
SPAN_S = 4000.0


def never(starts: np.ndarray) -> np.ndarray:
    return np.zeros(starts.shape, dtype=bool)


def learnt(windows: list[Window], usual_s: float = SPAN_S) -> NodeCourse:
    found = node_course(windows, METRIC, START_S + usual_s, never)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def pool() -> ServedByNodes:
    made = ServedByNodes(HARDWARE, common_sd=0.3)
    made.serve(SPAN_S + 500.0)
    return made


def test_hardware_is_learnt_and_taken_off(pool: ServedByNodes) -> None:
    found = learnt(pool.windows)
    middle = np.mean(np.log(list(HARDWARE.values())))
    for node, factor in HARDWARE.items():
        assert found.usual.offset(node) == pytest.approx(math.log(factor) - middle, abs=0.02)
        line = found.lines[node]
        weight, _, _, above = line.sums.now[:, -1]
        assert above / weight == pytest.approx(0.0, abs=0.01)
    # The wave of 30 % that all share does not show in the lines.
    assert all(line.scan.wander.tick < 0.1**2 for line in found.lines.values())


def test_tick_by_tick_is_as_at_once(pool: ServedByNodes) -> None:
    usual = round(SPAN_S / 5)
    whole, grown, extended = learnt(pool.windows), learnt(pool.windows[:usual]), learnt(pool.windows[:usual])
    for window in pool.windows[usual:]:
        grown.take(window)
    extended.extend(extended.usual.grid([window.nodes[METRIC] for window in pool.windows[usual:]]))
    onset_s = START_S + SPAN_S + 200.0
    for node, line in whole.lines.items():
        for other in (grown, extended):
            assert other.lines[node].sums.now == pytest.approx(line.sums.now, rel=1e-9, abs=1e-9)
            assert other.of_itself(node, onset_s) == pytest.approx(whole.of_itself(node, onset_s))
    assert grown.ticks == extended.ticks == whole.ticks


def test_a_node_or_bucket_that_is_new_is_left_out_of_one_tick_as_of_many(pool: ServedByNodes) -> None:
    usual, levels = learnt(pool.windows).usual, pool.windows[-1].nodes[METRIC]
    keys = (("new", "<=512"), *levels.keys, ("a", ">32k"))
    figures = np.pad(levels.figures, ((0, 0), (1, 1)), constant_values=9.0)
    for found in (levels, NodeLevels(keys, figures), None):
        one, many = usual.grid_of_one(found), usual.grid([found])
        assert np.array_equal(one.counts, many.counts) and np.array_equal(one.means, many.means)
        assert bool(one.counts.any()) is (found is not None)


def test_ticks_that_are_missing_or_not_judged_say_nothing(pool: ServedByNodes) -> None:
    usual = round(SPAN_S / 5)
    found = learnt(pool.windows[:usual])
    before = found.lines["a"].sums.now[:, -1].copy()
    found.take(pool.windows[usual + 2], judged=False)
    assert found.ticks == usual + 3
    assert np.array_equal(found.lines["a"].sums.now[:, -1], before)


@settings(deadline=None)
@given(
    wave=st.floats(-2.0, 2.0),
    counts=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    alone=st.booleans(),
)
def test_neither_a_wave_nor_a_mix_nor_who_else_serves_moves_a_line(wave: float, counts: list[int], alone: bool) -> None:
    """Without noise every line is at 0, whoever serves how many of which prompts."""
    offsets, levels = np.array([[0.0, 0.1], [0.3, 0.5], [-0.2, -0.4]]), np.array([-2.0, -0.5])
    usual = Usual(["a", "b", "c"], ["<=512", "<=2k"], offsets, np.array([0.16, 0.09]), levels)
    served = np.array(counts, dtype=np.float64).reshape(3, 2, 1)
    if alone:
        served[2] = 0.0
    values, sampling = usual.lines(Grid(served, (levels + wave + offsets)[:, :, None]))
    assert np.nan_to_num(values) == pytest.approx(0.0, abs=1e-9) and (sampling > 0.0).all()
    compared = (served > 0.0) & (served.sum(axis=0) > served)
    assert np.array_equal(np.isfinite(values), compared.any(axis=1))


def test_a_slow_node_rises_by_what_it_lost_and_its_peers_fall() -> None:
    usual = Usual(["a", "b", "c"], ["x"], np.zeros((3, 1)), np.array([0.1]), np.array([0.0]))
    values, _ = usual.lines(Grid(np.full((3, 1, 1), 4.0), np.array([math.log(1.5), 0.0, 0.0]).reshape(3, 1, 1)))
    assert values[:, 0] == pytest.approx([math.log(1.5), -math.log(1.5) / 2, -math.log(1.5) / 2])


@pytest.mark.parametrize(
    ("hardware", "span_s", "usual_s"),
    [({"a": 1.0}, SPAN_S, SPAN_S), (HARDWARE, 1500.0, 1500.0), (HARDWARE, 3000.0, 3000.0), (HARDWARE, SPAN_S, 60.0)],
)
def test_one_node_or_a_young_past_is_not_compared(hardware: dict[str, float], span_s: float, usual_s: float) -> None:
    pool = ServedByNodes(hardware)
    pool.serve(span_s)
    assert node_course(pool.windows, METRIC, START_S + usual_s, never) is None


@pytest.mark.slow
def test_what_is_closed_teaches_nothing() -> None:
    pool = ServedByNodes(HARDWARE)
    pool.serve(SPAN_S)
    pool.serve(1000.0, {"a": 3.0})
    pool.serve(1000.0)
    begin = START_S + SPAN_S
    open_course = learnt(pool.windows, SPAN_S + 2000.0)
    closed = node_course(
        pool.windows, METRIC, START_S + SPAN_S + 2000.0, lambda at: (at >= begin) & (at < begin + 1000.0)
    )
    assert closed is not None
    assert open_course.usual.offset("a") - closed.usual.offset("a") > 0.1
    assert closed.lines["a"].scan.wander.tick < 0.1 * open_course.lines["a"].scan.wander.tick
