"""A whole study of two objectives, judged by true figures."""

import pytest

from benchmarks.tuner_measures.front_finish import _is_worse, _logs, _regret, study
from benchmarks.tuner_measures.front_rivals import Objectives
from benchmarks.tuner_measures.measured_surface import measured

OF = Objectives(measured(0), ("tpot:0.95",))


def test_a_study_finds_and_proves_one_that_is_no_worse_in_the_second() -> None:
    told = study(OF, seed=0, trials=12)
    assert told.better and not told.breaks and not told.worse
    assert 0 <= told.regret < 0.2 and 0 < told.banked <= told.covered <= 1
    assert 12 < told.runs < 12 + 6 + 24


def test_regret_is_of_what_was_agreed_to() -> None:
    surface = OF.surface
    default = _regret(OF, surface.default)
    allowed = [
        one
        for key in surface.fresh
        if (one := OF.truth_at(key)) and not _is_worse(one[1:], _logs(OF, surface.default)[1:])
    ]
    assert default > 0.2 and min(one[0] for one in allowed) < _logs(OF, surface.default)[0]


@pytest.mark.parametrize(("second", "worse"), [(0.0, False), (0.09, False), (0.1, True)])
def test_a_tenth_is_agreed_to(second: float, worse: bool) -> None:
    assert _is_worse([second], [0.0]) is worse
