"""What is measured of a front: all of it is the whole, what breaks a limit is offered in vain."""

import json

import numpy as np
import pytest

from benchmarks.tuner_measures.front_rivals import PLAYERS, TwoObjectives, _path
from benchmarks.tuner_measures.measured_surface import measured

OF = TwoObjectives(measured(0), "tpot:0.95")
ALL = [json.loads(key) for key in OF.surface.fresh]


def test_all_configurations_cover_the_true_front_and_none_covers_nothing() -> None:
    corner, whole = OF.scale()
    broken = [knobs for knobs in ALL if OF.truth(knobs) is None]
    found = _path(iter([[], broken, ALL]), OF, corner, whole)
    assert [share for share, _ in found] == pytest.approx([0.0, 0.0, 1.0])
    assert [vain for _, vain in found] == pytest.approx([0.0, 1.0, len(broken) / len(ALL)])


def test_one_limit_has_become_an_objective() -> None:
    told = OF.measure(OF.surface.default, np.random.default_rng(0))
    assert OF.limits == ["ttft:0.95"] and told.violations.keys() == {"ttft:0.95"} and told.also.keys() == {"tpot:0.95"}


@pytest.mark.parametrize("name", sorted(set(PLAYERS) - {"Optuna GP"}))
def test_each_player_offers_what_it_has_measured_and_the_default_first(name: str) -> None:
    fronts = PLAYERS[name](OF, 1)
    first, second = next(fronts), next(fronts)
    assert all(knobs == OF.surface.default for knobs in first) and len(second) <= 2
