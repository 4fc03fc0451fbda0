"""Scores of windows: which kinds there are, what is summed by tick, arm and stratum, and what is left out."""

from collections.abc import Callable

import numpy as np
import pytest

from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.score_sums import (
    TAIL,
    TYPICAL,
    Yardstick,
    name_of,
    quantile_name,
    scored,
    usual_of,
)

MakeSketch = Callable[..., Sketch]


@pytest.fixture
def windows(make_sketch: MakeSketch) -> list[Window]:
    """Two ticks of two strata; the canary has one of them, in the second alone."""
    usual = make_sketch(np.geomspace(0.1, 1.0, 40))
    return [Window({"a": usual, "b": usual}, {"a": usual}), Window({"a": usual}, {"b": make_sketch(np.full(10, 2.0))})]


def test_lines_are_called_by_their_quantile_and_the_median_by_rank() -> None:
    assert [name_of(level) for level in (0.5, 0.9, 0.99, 0.995)] == [TYPICAL, "p90", "p99", "p99.5"]
    assert quantile_name(0.5) == "p50"


def test_there_is_a_score_by_rank_one_of_the_tail_and_one_for_each_other_level(windows: list[Window]) -> None:
    yardstick = Yardstick(usual_of(windows), [0.5, 0.9])
    assert yardstick.kinds == [TYPICAL, TAIL, "p90"] and yardstick.strata == ["a", "b"]
    assert yardstick.scoring("p90") is yardstick.by_line["p90"]
    assert yardstick.scoring("<=128") is yardstick.typical, "a prompt bucket is compared by rank"


def test_the_usual_is_what_both_arms_had(windows: list[Window]) -> None:
    usual = usual_of(windows)
    assert {name: int(counts.sum()) for name, counts in usual.items()} == {"a": 120, "b": 50}
    assert windows[0].control["a"].count == 40, "what came in is left as it was"


def test_scores_are_summed_by_tick_arm_and_stratum(windows: list[Window]) -> None:
    yardstick = Yardstick(usual_of(windows), [0.5, 0.9])
    seen = scored(windows, yardstick)
    assert seen.counts[0].tolist() == [[40.0, 40.0], [40.0, 0.0]] and seen.counts[1].tolist() == [
        [40.0, 0.0],
        [0.0, 10.0],
    ]
    sketch = windows[0].control["a"]
    table = yardstick.typical["a"].table
    assert seen.scores[TYPICAL][0][0, 0] == pytest.approx(float(table @ sketch.counts))
    assert seen.squares[TYPICAL][0] == pytest.approx(3 * float(table**2 @ sketch.counts))
    count, total, squares = seen.moments(TYPICAL, ["b"])
    assert count.tolist() == [50.0] and squares.tolist() == [pytest.approx(float(seen.squares[TYPICAL][1]))]
    assert total.tolist() == [pytest.approx(float(sum(arm[:, 1].sum() for arm in seen.scores[TYPICAL])))]
    assert seen.moments("<=128", ["b"]).tolist() == seen.moments(TYPICAL, ["b"]).tolist()


def test_the_control_s_mean_is_by_tick_and_nothing_where_it_had_nothing(windows: list[Window]) -> None:
    yardstick = Yardstick(usual_of(windows), [0.5])
    seen = scored(windows, yardstick)
    by_tick = seen.typical(["b"])
    assert by_tick[0] == pytest.approx(float(seen.scores[TYPICAL][0][0, 1]) / 40.0) and by_tick[1] == 0.0


def test_arms_are_compared_where_both_served_and_alone_where_one_did(windows: list[Window]) -> None:
    seen = scored(windows, Yardstick(usual_of(windows), [0.5]))
    both, alone = (seen.differences(TYPICAL, ["a", "b"], concurrent) for concurrent in (True, False))
    assert both.weight.tolist() == [[20.0, 0.0], [0.0, 0.0]] and both.value[0, 0] == 0.0
    assert alone.weight.tolist() == [[40.0, 0.0], [0.0, 10.0]] and alone.value[1, 1] > 0.0


def test_a_stratum_without_a_past_has_no_score(windows: list[Window], make_sketch: MakeSketch) -> None:
    yardstick = Yardstick(usual_of(windows), [0.5])
    strange = {"c": make_sketch(np.full(30, 9.0))}
    seen = scored([Window(strange, strange)], yardstick)
    assert not seen.counts[0].any() and not seen.counts[1].any() and seen.strata == ["a", "b"]
